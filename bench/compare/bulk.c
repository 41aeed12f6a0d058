/* The client of the bulk trials: librdkafka with its defaults and acks=all, driven from C.
 *
 *     bulk produce BOOTSTRAP TOPIC PARTITIONS MIB VALUE_BYTES
 *     bulk consume BOOTSTRAP TOPIC PARTITIONS MIB
 *
 * Prints one JSON object, {"seconds": S, "bytes": B}. A record that was not acknowledged, or records
 * that do not come, end it with exit code 1 and a sentence: no figure comes from a part of the work.
 * The declarations are those parts of librdkafka's interface that it keeps stable, as Python's package of
 * librdkafka brings the library without its header.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct rd_kafka_topic_partition_s rd_kafka_topic_partition_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1 };
enum { QUEUE_FULL = -184, PARTITION_EOF = -191 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(
    rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
int rd_kafka_produce_batch(rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_poll_set_consumer(rd_kafka_t *);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(
    rd_kafka_topic_partition_list_t *, const char *, int32_t);
int rd_kafka_topic_partition_list_set_offset(
    rd_kafka_topic_partition_list_t *, const char *, int32_t, int64_t);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int rd_kafka_consumer_close(rd_kafka_t *);
const char *rd_kafka_err2str(int);

enum {
    AT_ONCE = 1000,
    FULL_QUEUE_MS = 5,
    FLUSH_MS = 300000,
    IDLE_MS = 1000,
    IDLE_MAX = 90, /* polls in a row that bring nothing */
    OFFSET_BEGINNING = -2
};

static long long acknowledged, failed;
static int first_error;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    (void)opaque;
    if (message->err) {
        failed++;
        first_error = message->err;
    } else {
        acknowledged++;
    }
}

static void give_up(const char *sentence, int error)
{
    fprintf(stderr, "%s%s%s\n", sentence, error ? ": " : "", error ? rd_kafka_err2str(error) : "");
    exit(1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static rd_kafka_t *client(int kind, const char *bootstrap, const char *const *settings)
{
    char why[512] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, why, sizeof why);
    rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why);
    for (; *settings; settings += 2)
        if (rd_kafka_conf_set(conf, settings[0], settings[1], why, sizeof why))
            give_up(why, 0);
    if (kind == PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *made = rd_kafka_new(kind, conf, why, sizeof why);
    if (!made)
        give_up(why, 0);
    return made;
}

static void told(double seconds, long long bytes)
{
    printf("{\"seconds\": %.6f, \"bytes\": %lld}\n", seconds, bytes);
}

/* Hand records of one partition over; wait while librdkafka's queue is full. */
static void hand_over(
    rd_kafka_t *producer, rd_kafka_topic_t *topic, int partition, char *value, size_t size, int count)
{
    static rd_kafka_message_t records[AT_ONCE];
    for (int n = 0; n < count; n++) {
        records[n].payload = value;
        records[n].len = size;
    }
    while (count > 0) {
        rd_kafka_produce_batch(topic, partition, 0, records, count);
        int kept = 0;
        for (int n = 0; n < count; n++) {
            if (records[n].err == 0)
                continue;
            if (records[n].err != QUEUE_FULL)
                give_up("a record was refused", records[n].err);
            kept++;
        }
        count = kept; /* all records are alike */
        rd_kafka_poll(producer, count ? FULL_QUEUE_MS : 0);
    }
}

static void wait_for(rd_kafka_t *producer, long long records)
{
    rd_kafka_flush(producer, FLUSH_MS);
    if (failed || acknowledged != records)
        give_up("not every record was acknowledged", first_error);
}

static int produce(const char *bootstrap, const char *name, int partitions, long mib, size_t size)
{
    static const char *const settings[] = {"acks", "all", NULL};
    rd_kafka_t *producer = client(PRODUCER, bootstrap, settings);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, name, NULL);
    char *value = calloc(1, size);
    for (int n = 0; n < partitions; n++)
        hand_over(producer, topic, n, value, size, 1);
    wait_for(producer, partitions);
    long long count = ((long long)mib << 20) / size, left = count;
    double began = now();
    for (int n = 0; left > 0; n = (n + 1) % partitions) {
        int some = left < AT_ONCE ? left : AT_ONCE;
        hand_over(producer, topic, n, value, size, some);
        left -= some;
    }
    wait_for(producer, partitions + count);
    told(now() - began, count * (long long)size);
    return 0;
}

static int consume(const char *bootstrap, const char *name, int partitions, long mib)
{
    static const char *const settings[] = {
        "group.id", "bench", "enable.auto.commit", "false", NULL};
    static rd_kafka_message_t *messages[10 * AT_ONCE];
    rd_kafka_t *consumer = client(CONSUMER, bootstrap, settings);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int n = 0; n < partitions; n++) {
        rd_kafka_topic_partition_list_add(list, name, n);
        rd_kafka_topic_partition_list_set_offset(list, name, n, OFFSET_BEGINNING);
    }
    if (rd_kafka_assign(consumer, list))
        give_up("the partitions were not assigned", 0);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    long long wanted = (long long)mib << 20, found = 0;
    double began = 0;
    for (int idle = 0; found < wanted;) {
        size_t most = began ? 10 * AT_ONCE : 1;
        ssize_t count = rd_kafka_consume_batch_queue(queue, IDLE_MS, messages, most);
        idle = count > 0 ? 0 : idle + 1;
        if (count < 0 || idle == IDLE_MAX)
            give_up("no more records came", 0);
        /* The first record only tells that it begins: it came while nobody counted. */
        for (ssize_t n = 0; n < count; n++) {
            if (messages[n]->err && messages[n]->err != PARTITION_EOF)
                give_up("a fetch failed", messages[n]->err);
            if (began && !messages[n]->err)
                found += messages[n]->len;
            rd_kafka_message_destroy(messages[n]);
        }
        if (!began && count > 0)
            began = now();
    }
    told(now() - began, found);
    rd_kafka_consumer_close(consumer);
    return 0;
}

int main(int count, char **words)
{
    if (count == 7 && !strcmp(words[1], "produce"))
        return produce(words[2], words[3], atoi(words[4]), atol(words[5]), atol(words[6]));
    if (count == 6 && !strcmp(words[1], "consume"))
        return consume(words[2], words[3], atoi(words[4]), atol(words[5]));
    give_up("bulk produce|consume BOOTSTRAP TOPIC PARTITIONS MIB [VALUE_BYTES]", 0);
}
