// Package odradek gives a Go test a Kafka broker: the same for all tests of a package, clean for each, and broken when
// told to. It needs only the standard library; everything goes over the broker's control interface (HTTP).
//
//	func TestAnOrderIsStored(t *testing.T) {
//		broker := odradek.Start(t)
//		orders := broker.Topic("orders", 1)
//		place(broker.Bootstrap(), `{"id": 7}`) // your service
//		orders.Expect(odradek.Expected{JSON: map[string]any{"id": 7}})
//	}
//
// The broker is found in this order: BROKER_CONTROL=http://HOST:PORT (and BROKER_TOKEN), one that runs already;
// BROKER_IMAGE, an image for docker (or what CONTAINER_COMMAND names); ODRADEK, a command; `odradek` on the path. A process
// or a container ends with the test's process, however that ends.
//
// Methods fail the test if the broker refuses something, and if a wait is in vain. A failing test logs the broker's report.
package odradek

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options of a broker. Tests with equal options share one.
type Options struct {
	// Settings by Kafka's names in server.properties.
	Settings map[string]string
	// Profile is test (if empty), dev or kafka.
	Profile string
	// StartTimeout is 30 s if zero.
	StartTimeout time.Duration
	// Timeout of waits that have none of their own: 5 s if zero.
	Timeout time.Duration
	// Own has a broker of the test's own, which ends with the test.
	Own bool
}

func (o Options) key() string {
	var lines []string
	for name, value := range o.Settings {
		lines = append(lines, name+"="+value)
	}
	sort.Strings(lines)
	return o.Profile + "\n" + strings.Join(lines, "\n")
}

// Broker is a broker in a test's hands.
type Broker struct {
	t       testing.TB
	node    *node
	timeout time.Duration
}

var (
	shared   = map[string]*node{}
	starting sync.Mutex
)

// Start returns the broker of this process, clean for the test: what the test makes is gone after it, faults are removed,
// and the clock is reset. Tests that run in parallel share what is in it, and each cleans up all: give these Options{Own: true}.
func Start(t testing.TB, options ...Options) *Broker {
	t.Helper()
	var chosen Options
	if len(options) > 0 {
		chosen = options[0]
	}
	running, err := find(chosen)
	if err != nil {
		t.Fatalf("odradek: %v", err)
	}
	b := &Broker{t: t, node: running, timeout: chosen.Timeout}
	if b.timeout == 0 {
		b.timeout = 5 * time.Second
	}
	if chosen.Own {
		t.Cleanup(running.close)
	}
	mark := b.Get("/mark")
	since := int(b.Get("/journal?limit=0")["mark"].(float64))
	t.Cleanup(func() { b.clean(mark, since) })
	return b
}

func find(options Options) (*node, error) {
	if options.Own {
		return startNode(options)
	}
	starting.Lock()
	defer starting.Unlock()
	key := options.key()
	if known := shared[key]; known != nil && known.runs() {
		return known, nil
	}
	started, err := startNode(options)
	if err == nil {
		shared[key] = started
	}
	return started, err
}

// clean logs the report of a test that failed, and deletes what the test has made.
func (b *Broker) clean(mark map[string]any, since int) {
	if !b.node.runs() {
		if b.t.Failed() {
			b.t.Logf("odradek: the broker does not run; its log ends with\n%s", b.node.lastWords())
		}
		return // the next test has a new one
	}
	if b.t.Failed() {
		if report, err := b.node.send("GET", fmt.Sprintf("/report?text=true&since=%d", since), nil); err == nil {
			b.t.Logf("odradek:\n%s", report["text"])
		}
	}
	if _, err := b.node.send("POST", "/reset", mark); err != nil {
		b.node.kill() // what could not be removed is not for the next test
		b.t.Errorf("odradek: the broker could not be cleaned: %v", err)
	}
}

// Bootstrap is host:port for a client's bootstrap servers.
func (b *Broker) Bootstrap() string { return b.node.bootstrap }

// ControlURL is the address of the control interface.
func (b *Broker) ControlURL() string { return b.node.url }

// Get asks the control interface: the path is what follows /control.
func (b *Broker) Get(path string) map[string]any { b.t.Helper(); return b.must("GET", path, nil) }

// Post changes something; the body becomes JSON.
func (b *Broker) Post(path string, body any) map[string]any {
	b.t.Helper()
	return b.must("POST", path, body)
}

// Delete removes something.
func (b *Broker) Delete(path string) map[string]any { b.t.Helper(); return b.must("DELETE", path, nil) }

func (b *Broker) must(method, path string, body any) map[string]any {
	b.t.Helper()
	answer, err := b.node.send(method, path, body)
	if err != nil {
		b.t.Fatalf("odradek: %s %s: %v", method, path, err)
	}
	return answer
}

// seconds of a wait, unless it has its own.
func (b *Broker) seconds(own *float64) *float64 {
	if own == nil {
		own = Float(b.timeout.Seconds())
	}
	return own
}

// Kill ends the broker with SIGKILL; Restart starts it again with its data. Both are for a broker of Options{Own: true}, or
// of a test that restarts it.
func (b *Broker) Kill() {
	b.t.Helper()
	if err := b.node.requireProcess(); err != nil {
		b.t.Fatal(err)
	}
	b.node.kill()
}

// Restart starts the broker again, with the same data at the same address; it is stopped first if it runs.
func (b *Broker) Restart() {
	b.t.Helper()
	if err := b.node.requireProcess(); err != nil {
		b.t.Fatal(err)
	}
	b.node.stop()
	if err := b.node.start(); err != nil {
		b.t.Fatalf("odradek: %v", err)
	}
}

// AwaitEnd waits until the broker has ended, as after a crash that was asked for.
func (b *Broker) AwaitEnd(timeout time.Duration) {
	b.t.Helper()
	if !b.node.awaitEnd(timeout) {
		b.t.Fatalf("odradek: the broker still runs after %v", timeout)
	}
}

// Int is for a field whose zero says something: Partition: odradek.Int(0).
func Int(n int) *int { return &n }

// Float is the same for a number that is no whole one, such as seconds: Timeout: odradek.Float(30).
func Float(n float64) *float64 { return &n }
