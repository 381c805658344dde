// Package stock keeps the stock of a warehouse: for each record of the topic "movements" it writes exactly one to
// "entries". What is no movement goes to "movements-unreadable". Both topics are JSON, by schemas that a schema registry knows.
package stock

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
)

const (
	Movements  = "movements"
	Entries    = "entries"
	Unreadable = "movements-unreadable"
	Group      = "stock"
)

//go:embed movement.json
var movementSchema string

//go:embed entry.json
var entrySchema string

type movement struct {
	ID     int    `json:"id"`
	Item   string `json:"item"`
	Pieces int    `json:"pieces"`
}

type entry struct {
	Movement int    `json:"movement"`
	Text     string `json:"text"`
}

// schemas registers both, and returns what reads and writes records by them.
func schemas(ctx context.Context, registry string) (*sr.Serde, error) {
	client, err := sr.NewClient(sr.URLs(registry))
	if err != nil {
		return nil, err
	}
	serde := sr.NewSerde(sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	for _, each := range []struct {
		topic, text string
		value       any
	}{{Movements, movementSchema, movement{}}, {Entries, entrySchema, entry{}}} {
		known, err := client.CreateSchema(ctx, each.topic+"-value", sr.Schema{Schema: each.text, Type: sr.TypeJSON})
		if err != nil {
			return nil, err
		}
		serde.Register(known.ID, each.value)
	}
	return serde, nil
}

// Run works until ctx is cancelled; registry is the URL of the schema registry. Records and offsets are in one transaction.
// It returns an error if another instance with this transactional id has started.
func Run(ctx context.Context, bootstrap, registry, clientID, transactionalID string) error {
	serde, err := schemas(ctx, registry)
	if err != nil {
		return fmt.Errorf("schemas: %w", err)
	}
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
			session.Produce(ctx, book(serde, record), promise.Promise())
		})
		// Not committed without an error: it was aborted, and the next poll reads the same records again.
		if _, err := session.End(ctx, kgo.TransactionEndTry(promise.Err() == nil)); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
}

// book makes an entry of a movement, or puts it aside.
func book(serde *sr.Serde, record *kgo.Record) *kgo.Record {
	var moved movement
	if err := serde.Decode(record.Value, &moved); err != nil {
		reason := kgo.RecordHeader{Key: "reason", Value: []byte(err.Error())}
		return &kgo.Record{Topic: Unreadable, Key: record.Key, Value: record.Value, Headers: []kgo.RecordHeader{reason}}
	}
	value := serde.MustEncode(entry{moved.ID, fmt.Sprintf("%+d %s", moved.Pieces, moved.Item)})
	return &kgo.Record{Topic: Entries, Key: record.Key, Value: value}
}
