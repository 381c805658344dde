// Failover works with franz-go until it is told to stop, whatever happens to brokers meanwhile.
//
//	failover transactor BOOTSTRAP TOPIC ID: a transaction of three records for each line of the input, "commit" or
//	"abort"; each is answered with a line once it has ended.
//	failover member BOOTSTRAP GROUP TOPIC: one member of a consumer group, which tells what group_member.py tells,
//	but for its id: within a callback the client does not give it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 3

func main() {
	switch os.Args[1] {
	case "transactor":
		transact(os.Args[2], os.Args[3], os.Args[4])
	case "member":
		consume(os.Args[2], os.Args[3], os.Args[4])
	default:
		check(fmt.Errorf("%s is neither transactor nor member", os.Args[1]))
	}
}

func transact(bootstrap, topic, id string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(id),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	check(err)
	defer client.Close()
	ctx := context.Background()
	input := bufio.NewScanner(os.Stdin)
	for number := 0; input.Scan(); number++ {
		outcome := input.Text()
		check(client.BeginTransaction())
		for record := 0; record < records; record++ {
			value := fmt.Sprintf("%s %d %d", outcome, number, record)
			check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
		}
		check(client.EndTransaction(ctx, outcome == "commit"))
		fmt.Println(outcome)
	}
	check(input.Err())
}

// teller prints what partitions are owned.
type teller struct {
	mutex sync.Mutex
	owned map[int32]bool
}

func (one *teller) change(partitions map[string][]int32, owned bool) {
	one.mutex.Lock()
	defer one.mutex.Unlock()
	for _, of := range partitions {
		for _, partition := range of {
			if owned {
				one.owned[partition] = true
			} else {
				delete(one.owned, partition)
			}
		}
	}
	all := []int32{}
	for partition := range one.owned {
		all = append(all, partition)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	tell(map[string]any{"owned": all, "member": ""})
}

func consume(bootstrap, group, topic string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	told := &teller{owned: map[int32]bool{}}
	assigned := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		told.change(partitions, true)
	}
	gone := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		told.change(partitions, false)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(5*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	)
	check(err)
	uncommitted := false
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetched := client.PollFetches(patience)
		cancel()
		read := map[int32][]int64{}
		fetched.EachRecord(func(record *kgo.Record) {
			read[record.Partition] = append(read[record.Partition], record.Offset)
		})
		if len(read) > 0 {
			tell(map[string]any{"read": read})
			uncommitted = true
		}
		if uncommitted {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				tell(map[string]any{"not_committed": err.Error()})
			} else {
				uncommitted = false
			}
		}
	}
	client.Close()
	tell(map[string]any{"left": true})
}

func tell(what map[string]any) {
	line, err := json.Marshal(what)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
