package odradek

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failing is a test whose failure is recorded.
type failing struct {
	testing.TB
	said    []string
	cleanup []func()
}

func (f *failing) Helper()      {}
func (f *failing) Failed() bool { return len(f.said) > 0 }
func (f *failing) Logf(format string, given ...any) {
	f.said = append(f.said, fmt.Sprintf(format, given...))
}
func (f *failing) Fatalf(format string, given ...any) { f.Logf(format, given...); panic(f) }
func (f *failing) Cleanup(do func())                  { f.cleanup = append(f.cleanup, do) }

// failure runs a test that fails, and returns what it said.
func failure(test func(t testing.TB)) string {
	f := &failing{}
	func() {
		defer func() { recover() }()
		test(f)
	}()
	for at := len(f.cleanup) - 1; at >= 0; at-- {
		f.cleanup[at]()
	}
	return strings.Join(f.said, "\n")
}

func TestRecordsComeOutAsTheyWentIn(t *testing.T) {
	broker := Start(t)
	orders := broker.Topic("orders", 3, map[string]any{"retention.ms": -1})
	orders.Produce("7", map[string]any{"id": 7})
	orders.Produce("8", "text")
	orders.Produce("9", []byte{0xff})
	found := orders.Expect(Expected{JSON: map[string]any{"id": 7}, Key: "7"})
	if string(found.Key) != "7" || found.JSON()["id"] != 7.0 {
		t.Fatal(found)
	}
	if record := orders.Expect(Expected{Key: "9"}); record.Text() != "\xff" {
		t.Fatal(record)
	}
	if len(orders.Records()) != 3 {
		t.Fatal(orders.Records())
	}
	orders.Truncate()
	if len(orders.Records()) != 0 {
		t.Fatal(orders.Records())
	}
}

func TestARecordBySchemaComesOutDecoded(t *testing.T) {
	broker := Start(t)
	schema := `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}`
	id := broker.RegisterSchema("orders-value", SchemaSpec{Schema: schema, Type: "AVRO"})
	orders := broker.Topic("orders", 1)
	orders.ProduceBySchema("7", map[string]any{"id": 7}, id)
	found := orders.Expect(Expected{JSON: map[string]any{"id": 7}, Key: "7"})
	if found.JSON()["id"] != 7.0 || len(found.Value) != 6 {
		t.Fatal(found)
	}
	fault := broker.RegistryFault(RegistryFaultSpec{Call: "list", Error: 503, Count: 1})
	for _, status := range []int{503, 200} {
		answer, err := http.Get(broker.RegistryURL() + "/subjects")
		if err != nil || answer.StatusCode != status {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
	}
	fault.Wait(1)
}

func TestEachTestFindsTheBrokerClean(t *testing.T) {
	broker := Start(t)
	if topics := broker.Get("/topics")["topics"].([]any); len(topics) != 0 {
		t.Fatal(topics)
	}
	if faults := broker.Get("/faults")["faults"].([]any); len(faults) != 0 {
		t.Fatal(faults)
	}
	broker.Fault(FaultSpec{API: "Produce", Error: "REQUEST_TIMED_OUT", Count: 1})
	broker.Group("shipping").Configure(map[string]any{"share.auto.offset.reset": "earliest"})
	if state := broker.Group("shipping").State(); state != "Dead" {
		t.Fatal(state)
	}
	broker.Advance(Duration{Minutes: Float(15)})
}

func TestAFailureSaysWhatTheBrokerHolds(t *testing.T) {
	said := failure(func(t testing.TB) {
		broker := Start(t)
		orders := broker.Topic("orders", 1)
		orders.Produce("7", "order 7")
		orders.Expect(Expected{Value: "order 8", Timeout: Float(0)})
	})
	for _, words := range []string{`value: expected "order 8", is "order 7"`, "topics (first offset..end):\n  orders: 0: 0..1"} {
		if !strings.Contains(said, words) {
			t.Fatalf("%q is missing in\n%s", words, said)
		}
	}
}

func TestWhatIsRefusedSaysWhatIsAccepted(t *testing.T) {
	said := failure(func(t testing.TB) { Start(t).Fault(FaultSpec{API: "Prodce", Error: "REQUEST_TIMED_OUT"}) })
	if !strings.Contains(said, "such as Produce (0)") {
		t.Fatal(said)
	}
}

func TestABrokerOfItsOwnIsKilledAndStartedAgain(t *testing.T) {
	broker := Start(t, Options{Own: true, Settings: map[string]string{"num.partitions": "2"}})
	address, registry := broker.Bootstrap(), broker.RegistryURL()
	orders := broker.Topic("orders", 1)
	orders.Produce("", "kept")
	broker.Kill()
	broker.Restart()
	if broker.Bootstrap() != address || orders.Records()[0].Text() != "kept" {
		t.Fatal(orders.Records())
	}
	if answer, err := http.Get(registry + "/subjects"); err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	broker.Crash(CrashSpec{Unsynced: "kept"})
	broker.AwaitEnd(10 * time.Second)
	broker.Restart()
	orders.Expect(Expected{Value: "kept"})
}

// TestTheBrokerEndsWithAProcessThatIsKilled runs this file's own program again, which says the broker's process and waits.
func TestTheBrokerEndsWithAProcessThatIsKilled(t *testing.T) {
	if os.Getenv("ODRADEK_TO_BE_KILLED") != "" {
		broker := Start(t)
		fmt.Printf("broker %d %s\n", broker.node.process.Process.Pid, broker.node.folder)
		time.Sleep(time.Minute)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestTheBrokerEndsWithAProcessThatIsKilled$")
	command.Env = append(os.Environ(), "ODRADEK_TO_BE_KILLED=1")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var folder string
	if _, err := fmt.Fscanf(output, "broker %d %s\n", &pid, &folder); err != nil {
		t.Fatal(err)
	}
	command.Process.Kill()
	command.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(folder)
		if os.IsNotExist(err) && syscall.Kill(pid, 0) != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d or %s is still there", pid, folder)
		}
	}
}
