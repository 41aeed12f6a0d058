// One franz-go producer with its defaults, which include acks=all and idempotence: a number on
// standard input sends a record to that partition, and the same number on standard output tells
// that the record was acknowledged.
//
//	franz BOOTSTRAP TOPIC
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.DefaultProduceTopic(os.Args[2]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		fatal(err)
	}
	value := make([]byte, 100)
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		partition, err := strconv.ParseInt(asked.Text(), 10, 32)
		if err != nil {
			fatal(err)
		}
		record := &kgo.Record{Partition: int32(partition), Value: value}
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			if err != nil {
				fatal(err)
			}
			fmt.Println(sent.Partition)
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		fatal(err)
	}
	client.Close()
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
