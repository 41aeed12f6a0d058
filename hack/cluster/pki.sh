# Certificates (EC keys, ten years), kubeconfig files and the flags that name them; sourced after lib.sh. Existing files are kept.
pki=$RUN/pki
# Flags of every API server; its audit log has user, verb and object of every request, one JSON line each.
API_FLAGS=(--service-cluster-ip-range="$SERVICE_CIDR" --authorization-mode=Node,RBAC --anonymous-auth=true
	--client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key"
	--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key"
	--audit-policy-file="$HERE/audit-policy.yaml" --audit-log-path="$RUN/log/audit.log" --audit-log-maxsize=200 --audit-log-maxbackup=3
	--profiling=false --v=1)
# Flags of every controller manager.
CONTROLLER_FLAGS=(--kubeconfig="$pki/kube-controller-manager.conf" --leader-elect=false --use-service-account-credentials=true --controllers='*'
	--cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" --root-ca-file="$pki/ca.crt"
	--service-account-private-key-file="$pki/sa.key" --service-cluster-ip-range="$SERVICE_CIDR" --allocate-node-cidrs=false
	--kube-api-qps=200 --kube-api-burst=400 --profiling=false --v=1)

authority() { # name, common name
	[ -f "$pki/$1.crt" ] && return
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -keyout "$pki/$1.key" -out "$pki/$1.crt" -subj "/CN=$2" \
		-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign 2>/dev/null
}
certificate() { # name, authority, subject, [subjectAltName]
	[ -f "$pki/$1.crt" ] && return
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$pki/$1.key" -subj "$3" 2>/dev/null |
		openssl x509 -req -days 3650 -CA "$pki/$2.crt" -CAkey "$pki/$2.key" -set_serial "0x$(openssl rand -hex 8)" -out "$pki/$1.crt" \
			-extfile <(printf 'keyUsage=critical,digitalSignature,keyEncipherment\nextendedKeyUsage=serverAuth,clientAuth\n%s' "${4:+subjectAltName=$4}") 2>/dev/null
}
kubeconfig_file() { # file, server, certificate, user
	[ -f "$1" ] && return
	cat >"$1" <<-YAML
		apiVersion: v1
		kind: Config
		current-context: strandline
		clusters: [{name: strandline, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 "$pki/ca.crt")}}]
		contexts: [{name: strandline, context: {cluster: strandline, user: $4}}]
		users: [{name: $4, user: {client-certificate-data: $(base64 -w0 "$pki/$3.crt"), client-key-data: $(base64 -w0 "$pki/$3.key")}}]
	YAML
}
service_account_keys() {
	[ -f "$pki/sa.pub" ] && return
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$pki/sa.key" 2>/dev/null
	openssl pkey -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
}
