// Package stock keeps the stock of a warehouse: for each record of the topic "movements" it writes exactly one to
// "entries". What is no movement goes to "movements-unreadable".
package stock

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	Movements  = "movements"
	Entries    = "entries"
	Unreadable = "movements-unreadable"
	Group      = "stock"
)

type movement struct {
	ID     int    `json:"id"`
	Item   string `json:"item"`
	Pieces int    `json:"pieces"`
}

type entry struct {
	Movement int    `json:"movement"`
	Text     string `json:"text"`
}

// Run works until ctx is cancelled. Records and offsets are in one transaction. It returns an error if another instance
// with this transactional id has started.
func Run(ctx context.Context, bootstrap, clientID, transactionalID string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(clientID),
		kgo.TransactionalID(transactionalID),
		kgo.ConsumerGroup(Group),
		kgo.ConsumeTopics(Movements),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		fetches := session.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, book(record), promise.Promise())
		})
		// Not committed without an error: it was aborted, and the next poll reads the same records again.
		if _, err := session.End(ctx, kgo.TransactionEndTry(promise.Err() == nil)); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
}

// book makes an entry of a movement, or puts it aside.
func book(record *kgo.Record) *kgo.Record {
	var moved movement
	if err := json.Unmarshal(record.Value, &moved); err != nil {
		reason := kgo.RecordHeader{Key: "reason", Value: []byte(err.Error())}
		return &kgo.Record{Topic: Unreadable, Key: record.Key, Value: record.Value, Headers: []kgo.RecordHeader{reason}}
	}
	value, _ := json.Marshal(entry{moved.ID, fmt.Sprintf("%+d %s", moved.Pieces, moved.Item)})
	return &kgo.Record{Topic: Entries, Key: record.Key, Value: value}
}
