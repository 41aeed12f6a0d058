"""The errors that packages share, and what a caller may do about each.

    StrandlineError
    |-- ProtocolError        expected; travels as Kafka's numeric code
    |-- StorageError         the broker stops; its next start looks at the disk (ADR 0010)
    |-- CoordinationError    read and decide again, or step down
    |-- ConfigError          refuse to start: names the key and the accepted range
    InvariantViolation       our own bug: the broker stops; outside the tree, so that no handler
                             of StrandlineError catches it

Protocol error numbers are Apache Kafka's (org.apache.kafka.common.protocol.Errors).
The pure core returns `ErrorCode` inside its effects; shells raise or translate.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's error numbers that this project answers or understands."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    NETWORK_EXCEPTION = 13
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102


class StrandlineError(Exception):
    """Root of all errors of this project."""


class ProtocolError(StrandlineError):
    """An expected refusal; `code` is what travels on the wire."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, code: ErrorCode | None = None, **values: object) -> None:
        self.code = self.code if code is None else code
        self.values = values
        detail = ", ".join(f"{k}={v}" for k, v in sorted(values.items()))
        super().__init__(f"{self.code.name}({detail})")


class StorageError(StrandlineError):
    """A log directory can no longer be read, written or trusted."""


class LogDirectoryFailed(StorageError):
    """Reading or writing a log directory failed; carries the directory and the cause."""


class LogDirectoryFull(LogDirectoryFailed):
    """A write found no space; nothing that was written before it is in doubt."""


class CheckpointMalformed(StorageError):
    """A checkpoint or state file does not have the promised form."""


class CorruptBatch(ProtocolError):
    """A record batch whose header or CRC-32C is wrong; nothing of it was written."""

    code = ErrorCode.CORRUPT_MESSAGE


class CoordinationError(StrandlineError):
    """A call to Kubernetes failed, or the object changed since we decided."""


class StoreConflict(CoordinationError):
    """A compare-and-swap failed: read the object and decide again."""


class StoreUnavailable(CoordinationError):
    """The API server did not answer; whether a write was applied is unknown."""


class StoreForbidden(CoordinationError):
    """The API server answered 401 or 403; names verb and resource."""


class StoreRefused(CoordinationError):
    """The API server found the request wrong (a CEL rule, a schema); carries its sentence."""


class StoreNotFound(CoordinationError):
    """The object of a write does not exist."""


class WatchExpired(CoordinationError):
    """A watch can no longer go on from its resourceVersion: list again."""


class ObjectMalformed(CoordinationError):
    """A stored object does not have the promised form; names object and field."""


class RegistrationSuperseded(CoordinationError):
    """Another process registered under this broker id: this one must end."""


class ConfigError(StrandlineError):
    """A setting is unknown or out of range; the process refuses to start."""


class InvariantViolation(Exception):
    """A promise of our own code is broken; continuing could lose acknowledged records."""

    def __init__(self, promise: str, **values: object) -> None:
        self.promise = promise
        self.values = values
        super().__init__(f"{promise}: " + ", ".join(f"{k}={v}" for k, v in sorted(values.items())))


class ExitCode(IntEnum):
    """Status of a broker's process; after 2 a mere restart does not help.

    The operator reads 4 and 5 from the pod, where they outlast the process.
    """

    STOPPED = 0
    FAILED = 1
    REFUSED = 2
    SUPERSEDED = 3
    LOG_DIRECTORY_FAILED = 4
    INVARIANT_VIOLATED = 5


def exit_code_of(error: BaseException) -> ExitCode:
    """Return how a running broker ends that met this error; a full disk is no failed one."""
    match error:
        case RegistrationSuperseded():
            return ExitCode.SUPERSEDED
        case InvariantViolation():
            return ExitCode.INVARIANT_VIOLATED
        case StorageError() if not isinstance(error, LogDirectoryFull):
            return ExitCode.LOG_DIRECTORY_FAILED
        case _:
            return ExitCode.FAILED
