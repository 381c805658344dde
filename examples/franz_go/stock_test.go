package stock

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// seconds is how long a test waits for what has to come.
const seconds = 60

var odradek *broker

func TestMain(m *testing.M) {
	var err error
	if odradek, err = startBroker(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	odradek.stop()
	os.Exit(status)
}

// clean makes the topics; what a test made goes with it.
func clean(t *testing.T) {
	mark, err := odradek.send("GET", "/mark", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { odradek.post(t, "/reset", mark) })
	for _, topic := range []string{Movements, Entries, Unreadable} {
		odradek.post(t, "/topics", values{"topic": topic, "partitions": 1})
	}
}

// start runs an instance until the end of the test; its result is in the channel.
func start(t *testing.T, clientID, transactionalID string) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- Run(ctx, odradek.bootstrap, clientID, transactionalID)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return ended
}

func move(t *testing.T, records ...string) {
	t.Helper()
	var list []values
	for at, value := range records {
		list = append(list, values{"key": fmt.Sprint(at), "value": value})
	}
	odradek.post(t, "/topics/"+Movements+"/records", values{"records": list})
}

func expectEntry(t *testing.T, id int) {
	t.Helper()
	odradek.post(t, "/topics/"+Entries+"/wait", values{"json": values{"movement": id}, "timeout": seconds})
}

func expectExactlyOnce(t *testing.T) {
	t.Helper()
	odradek.post(t, "/exactly-once", values{"source": Movements, "sink": Entries, "timeout": seconds})
}

func TestAMovementIsBooked(t *testing.T) {
	clean(t)
	start(t, "a", "stock-a")
	move(t, `{"id": 7, "item": "nuts", "pieces": 3}`)
	expected := values{"json": values{"movement": 7, "text": "+3 nuts"}, "timeout": seconds}
	odradek.post(t, "/topics/"+Entries+"/wait", expected)
}

func TestALostReplyBooksOnce(t *testing.T) {
	clean(t)
	produced, _ := odradek.fault(t, "/faults",
		values{"api": "Produce", "topic": Entries, "phase": "before_reply", "disconnect": true, "count": 1})
	committed, _ := odradek.fault(t, "/faults",
		values{"api": "EndTxn", "transactional_id": "stock-a", "phase": "before_reply", "disconnect": true, "count": 1})
	start(t, "a", "stock-a")
	move(t, `{"id": 7}`, `{"id": 8}`)
	odradek.awaitHit(t, produced)
	odradek.awaitHit(t, committed)
	expectExactlyOnce(t)
}

func TestARebalanceInTheMiddleOfACommitBooksOnce(t *testing.T) {
	clean(t)
	refused, _ := odradek.fault(t, "/faults",
		values{"api": "TxnOffsetCommit", "group": Group, "error": "ILLEGAL_GENERATION", "count": 1})
	start(t, "a", "stock-a")
	start(t, "b", "stock-b")
	move(t, `{"id": 7}`, `{"id": 8}`)
	odradek.awaitHit(t, refused)
	odradek.post(t, "/groups/"+Group+"/rebalance", nil)
	odradek.post(t, "/groups/"+Group+"/wait", values{"state": "Stable", "members": 2, "lag": 0, "timeout": seconds})
	expectExactlyOnce(t)
}

func TestAZombieIsFencedAndBooksNothing(t *testing.T) {
	clean(t)
	endless, reachable := odradek.fault(t, "/faults", values{"api": "EndTxn", "client_id": "a", "disconnect": true})
	zombie := start(t, "a", "stock")
	move(t, `{"id": 7}`)
	odradek.awaitHit(t, endless) // it has booked, and cannot commit
	_, awake := odradek.fault(t, "/stall", values{"client_id": "a"})
	reachable()
	odradek.post(t, "/clock/advance", values{"minutes": 1}) // its session ends, and its transaction is aborted
	start(t, "b", "stock")
	expectEntry(t, 7)
	awake()
	select {
	case err := <-zombie:
		if err == nil {
			t.Fatal("the zombie ended without an error")
		}
		t.Log("the zombie:", err)
	case <-time.After(seconds * time.Second):
		t.Fatal("the zombie goes on")
	}
	expectExactlyOnce(t)
}

func TestAPoisonedMovementIsPutAsideAndTheNextOneIsBooked(t *testing.T) {
	clean(t)
	move(t, `three nuts`, `{"id": 8}`)
	start(t, "a", "stock-a")
	expectEntry(t, 8)
	odradek.post(t, "/topics/"+Unreadable+"/wait", values{"value": "three nuts", "timeout": seconds})
}
