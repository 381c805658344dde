package stock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"odradek"
)

// patience is how long a test waits for what has to come.
const patience = 60 * time.Second

// broker is clean, and has the topics; what a test makes goes with it.
func broker(t *testing.T) *odradek.Broker {
	b := odradek.Start(t, odradek.Options{Timeout: patience})
	for _, topic := range []string{Movements, Entries, Unreadable} {
		b.Topic(topic, 1)
	}
	return b
}

// start runs an instance until the end of the test; its result is in the channel.
func start(t *testing.T, b *odradek.Broker, clientID, transactionalID string) <-chan error {
	registry := b.RegistryURL()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- Run(ctx, b.Bootstrap(), registry, clientID, transactionalID)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return ended
}

func move(b *odradek.Broker, records ...movement) {
	id := b.RegisterSchema(Movements+"-value", odradek.SchemaSpec{Schema: movementSchema, Type: "JSON"})
	for at, value := range records {
		b.Topic(Movements, 1).ProduceBySchema(fmt.Sprint(at), value, id)
	}
}

func expectEntry(b *odradek.Broker, id int) {
	b.Topic(Entries, 1).Expect(odradek.Expected{JSON: map[string]any{"movement": id}})
}

func TestAMovementIsBooked(t *testing.T) {
	b := broker(t)
	start(t, b, "a", "stock-a")
	move(b, movement{7, "nuts", 3})
	b.Topic(Entries, 1).Expect(odradek.Expected{JSON: map[string]any{"movement": 7, "text": "+3 nuts"}})
}

func TestALostReplyBooksOnce(t *testing.T) {
	b := broker(t)
	produced := b.Fault(odradek.FaultSpec{API: "Produce", Topic: Entries, Phase: "before_reply", Disconnect: true, Count: 1})
	committed := b.Fault(odradek.FaultSpec{API: "EndTxn", TransactionalID: "stock-a", Phase: "before_reply", Disconnect: true, Count: 1})
	start(t, b, "a", "stock-a")
	move(b, movement{ID: 7}, movement{ID: 8})
	produced.Wait(1)
	committed.Wait(1)
	b.ExpectExactlyOnce(Movements, Entries)
}

func TestARebalanceInTheMiddleOfACommitBooksOnce(t *testing.T) {
	b := broker(t)
	refused := b.Fault(odradek.FaultSpec{API: "TxnOffsetCommit", Group: Group, Error: "ILLEGAL_GENERATION", Count: 1})
	start(t, b, "a", "stock-a")
	start(t, b, "b", "stock-b")
	move(b, movement{ID: 7}, movement{ID: 8})
	refused.Wait(1)
	b.Group(Group).Rebalance()
	b.Group(Group).Wait(odradek.GroupWait{State: "Stable", Members: odradek.Int(2), Lag: odradek.Int(0)})
	b.ExpectExactlyOnce(Movements, Entries)
}

func TestAZombieIsFencedAndBooksNothing(t *testing.T) {
	b := broker(t)
	endless := b.Fault(odradek.FaultSpec{API: "EndTxn", ClientID: "a", Disconnect: true})
	zombie := start(t, b, "a", "stock")
	move(b, movement{ID: 7})
	endless.Wait(1) // it has booked, and cannot commit
	asleep := b.Stall(odradek.Connections{ClientID: "a"})
	endless.Remove()
	b.Advance(odradek.Duration{Minutes: odradek.Float(1)}) // its session ends, and its transaction is aborted
	start(t, b, "b", "stock")
	expectEntry(b, 7)
	asleep.Remove()
	select {
	case err := <-zombie:
		if err == nil {
			t.Fatal("the zombie ended without an error")
		}
		t.Log("the zombie:", err)
	case <-time.After(patience):
		t.Fatal("the zombie goes on")
	}
	b.ExpectExactlyOnce(Movements, Entries)
}

func TestAPoisonedMovementIsPutAsideAndTheNextOneIsBooked(t *testing.T) {
	b := broker(t)
	b.Topic(Movements, 1).Produce("0", "three nuts")
	move(b, movement{ID: 8})
	start(t, b, "a", "stock-a")
	expectEntry(b, 8)
	b.Topic(Unreadable, 1).Expect(odradek.Expected{Value: "three nuts"})
}
