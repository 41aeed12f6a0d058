"""FindCoordinator and InitProducerId: the APIs of Kafka's coordinators.

Registered in `apis`. This broker coordinates neither groups nor transactions: it hands out
producer ids, and refuses the rest.
"""

from __future__ import annotations

from strandline.errors import ErrorCode, ProtocolError
from strandline.kafka_listener.response import DeferredResponse, RequestContext, Response
from strandline.kafka_listener.turns import Turns
from strandline.kafka_listener.wire import Message

TRANSACTION_KEY_TYPE = 1
NO_COORDINATOR: Message = {"node_id": -1, "host": "", "port": -1}


def find_coordinator(
    _context: RequestContext, _version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Respond that no group coordinator is available; refuse one for transactions.

    A client repeats its request after COORDINATOR_NOT_AVAILABLE; a client that wants transactions
    shall fail at once instead. The API is advertised because librdkafka sends lz4 only to brokers
    that have it.
    """
    if request["key_type"] == TRANSACTION_KEY_TYPE:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        reason = "transactions are not served"
    else:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        reason = "consumer groups are not served; assign partitions instead"
    refusal = {**NO_COORDINATOR, "error_code": error, "error_message": reason}
    keys = request.get("coordinator_keys", ())
    # Versions before 4 ask for one coordinator and find it at the top.
    coordinators = []
    for key in keys:
        coordinators.append({"key": key, **refusal})
        yield
    body = {**refusal, "coordinators": coordinators}
    return Response(body=body, error=error, needless_count=len(keys))


def init_producer_id(
    context: RequestContext, _version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Hand out a new producer id with epoch 0; refuse a client that wants transactions.

    A client that lost its sequence and sends its old id gets a new one too, as in Kafka.
    """
    yield
    transactional_id = request["transactional_id"]
    if transactional_id:
        return _producer_id(-1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if transactional_id is not None:
        return _producer_id(-1, ErrorCode.INVALID_REQUEST)
    try:
        return _producer_id(context.broker.allocate_producer_id(), ErrorCode.NONE)
    except ProtocolError as error:
        return _producer_id(-1, error.code)


def _producer_id(producer_id: int, error: ErrorCode) -> Response:
    epoch = 0 if error is ErrorCode.NONE else -1
    body = {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch}
    return Response(body=body, error=error)
