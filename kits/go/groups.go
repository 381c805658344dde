package odradek

import "net/url"

// Group is a group of any kind: classic, consumer, share, streams. It need not exist yet.
type Group struct {
	broker *Broker
	ID     string
}

// Group names a group.
func (b *Broker) Group(id string) *Group { return &Group{b, id} }

// Describe returns all that the broker says of it.
func (g *Group) Describe() map[string]any { g.broker.t.Helper(); return g.broker.Get(g.path("")) }

// State is Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, NotReady, or Dead if there is none.
func (g *Group) State() string { g.broker.t.Helper(); return g.Describe()["state"].(string) }

// Wait waits until all of it is so at the same time.
func (g *Group) Wait(wanted GroupWait) {
	g.broker.t.Helper()
	wanted.Timeout = g.broker.seconds(wanted.Timeout)
	g.broker.Post(g.path("/wait"), wanted)
}

// Lag is the number of records that the group has not done, and whether it is known.
func (g *Group) Lag() (int, bool) {
	g.broker.t.Helper()
	total, known := g.broker.Get(g.path("/lag"))["total"].(float64)
	return int(total), known
}

// Rebalance begins a rebalance now.
func (g *Group) Rebalance() { g.broker.t.Helper(); g.broker.Post(g.path("/rebalance"), nil) }

// Expire ends the session of a member (by member id, client id or instance id), or all of them for "".
func (g *Group) Expire(member string) {
	g.broker.t.Helper()
	g.broker.Post(g.path("/expire"), without("member", member))
}

// ResetOffsets commits other offsets; the group has no members.
func (g *Group) ResetOffsets(to Offsets) {
	g.broker.t.Helper()
	g.broker.Post(g.path("/reset_offsets"), to)
}

// Configure sets configurations of the group, which need not exist: share.auto.offset.reset, say.
func (g *Group) Configure(configs map[string]any) {
	g.broker.t.Helper()
	g.broker.Post(g.path("/configs"), map[string]any{"configs": configs})
}

// Deliveries is what a share group has in flight, as the control interface says it.
func (g *Group) Deliveries() map[string]any {
	g.broker.t.Helper()
	return g.broker.Get(g.path("/deliveries"))
}

// Release releases acquired records of a share group, and returns how many.
func (g *Group) Release(which Acquired) int { g.broker.t.Helper(); return g.end("/release", which) }

// ExpireLocks ends acquisition locks of a share group, and returns of how many records.
func (g *Group) ExpireLocks(which Acquired) int {
	g.broker.t.Helper()
	return g.end("/expire_locks", which)
}

func (g *Group) end(path string, which Acquired) int {
	g.broker.t.Helper()
	return int(g.broker.Post(g.path(path), which)["released"].(float64))
}

func (g *Group) path(end string) string { return "/groups/" + url.PathEscape(g.ID) + end }

// Transaction is a transactional id.
type Transaction struct {
	broker *Broker
	ID     string
}

// Transaction names a transactional id.
func (b *Broker) Transaction(id string) *Transaction { return &Transaction{b, id} }

// State is Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, or Dead if there is none.
func (x *Transaction) State() string {
	x.broker.t.Helper()
	return x.broker.Get(x.path(""))["state"].(string)
}

// Wait waits until it is in this state.
func (x *Transaction) Wait(state string) {
	x.broker.t.Helper()
	x.broker.Post(x.path("/wait"), map[string]any{"state": state, "timeout": x.broker.timeout.Seconds()})
}

// Abort fences the producer and aborts its open transaction.
func (x *Transaction) Abort() { x.broker.t.Helper(); x.broker.Post(x.path("/abort"), nil) }

// Fence makes the producer a zombie.
func (x *Transaction) Fence() { x.broker.t.Helper(); x.broker.Post(x.path("/fence"), nil) }

func (x *Transaction) path(end string) string { return "/transactions/" + url.PathEscape(x.ID) + end }

func without(name, value string) map[string]any {
	if value == "" {
		return nil
	}
	return map[string]any{name: value}
}
