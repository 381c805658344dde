// Share is a member of a share group with franz-go.
//
//	share BOOTSTRAP GROUP TOPIC COUNT HOW: consumes COUNT records and prints "partition offset value deliveries" of
//	each; HOW is accept, release or reject. Acknowledgements are flushed after each poll; an error of one ends it.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

var statuses = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject}

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	left, err := strconv.Atoi(os.Args[4])
	check(err)
	status := statuses[os.Args[5]]
	var refused atomic.Pointer[error]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ShareMaxRecords(int32(left)),
		kgo.ShareMaxRecordsStrict(),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				refused.Store(&err)
			}
		}),
	)
	check(err)
	defer client.Close()
	ctx := context.Background()
	for left > 0 {
		fetches := client.PollRecords(ctx, left)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(record.Partition, record.Offset, string(record.Value), record.DeliveryCount())
			record.Ack(status)
			left--
		})
		check(client.FlushAcks(ctx))
		if err := refused.Load(); err != nil {
			check(*err)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
