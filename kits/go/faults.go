package odradek

import "net/url"

// Fault is a fault that is set, until Remove or the end of the test.
type Fault struct {
	broker *Broker
	id     string
}

// Fault sets a fault: do something to the requests that match.
func (b *Broker) Fault(spec FaultSpec) *Fault { b.t.Helper(); return b.set("/faults", spec) }

// Crash ends the broker as a power failure does: at once, or in a phase of a request. AwaitEnd and Restart follow.
func (b *Broker) Crash(spec CrashSpec) { b.t.Helper(); b.Post("/crash", spec) }

// Throttle makes connections slow.
func (b *Broker) Throttle(which Connections) *Fault { b.t.Helper(); return b.set("/throttle", which) }

// Stall lets nothing pass on connections, and leaves them open.
func (b *Broker) Stall(which Connections) *Fault { b.t.Helper(); return b.set("/stall", which) }

// RefuseConnections resets each new connection.
func (b *Broker) RefuseConnections() *Fault { b.t.Helper(); return b.set("/refuse_connections", nil) }

// Disconnect resets the connections of a client, or all for "".
func (b *Broker) Disconnect(clientID string) {
	b.t.Helper()
	b.Post("/disconnect", without("client_id", clientID))
}

func (b *Broker) set(path string, body any) *Fault {
	b.t.Helper()
	return &Fault{b, b.Post(path, body)["id"].(string)}
}

// Wait waits until the fault has struck n times.
func (f *Fault) Wait(n int) {
	f.broker.t.Helper()
	f.broker.Post("/faults/"+f.id+"/wait", map[string]any{"n": n, "timeout": f.broker.timeout.Seconds()})
}

// Hits is how often it has struck.
func (f *Fault) Hits() int {
	f.broker.t.Helper()
	return int(f.broker.Get("/faults/" + f.id)["hits"].(float64))
}

// Requests are those that it has struck, decoded.
func (f *Fault) Requests() []any {
	f.broker.t.Helper()
	return f.broker.Get("/faults/" + f.id)["requests"].([]any)
}

// Remove removes it; harmless if it is gone.
func (f *Fault) Remove() { f.broker.node.send("DELETE", "/faults/"+f.id, nil) }

// Advance moves the broker's clock, and returns when all that was due has run.
func (b *Broker) Advance(by Duration) { b.t.Helper(); b.Post("/clock/advance", by) }

// Freeze stops the broker's clock until Resume or the end of the test.
func (b *Broker) Freeze() { b.t.Helper(); b.Post("/clock/freeze", nil) }

// Resume lets the broker's clock go on.
func (b *Broker) Resume() { b.t.Helper(); b.Post("/clock/resume", nil) }

// Explain says why a consumer of this group gets nothing, and what to do.
func (b *Broker) Explain(group string) string {
	b.t.Helper()
	return b.Get("/explain?text=true&group=" + url.QueryEscape(group))["text"].(string)
}
