package odradek

import "net/url"

// RegistryURL is where the schema registry is, which listens from now on.
func (b *Broker) RegistryURL() string {
	b.t.Helper()
	b.node.schemas = b.Post("/registry", b.node.registry)["url"].(string)
	return b.node.schemas
}

// RegisterSchema registers a schema, and returns its id: of values the subject is TOPIC-value.
func (b *Broker) RegisterSchema(subject string, spec SchemaSpec) int {
	b.t.Helper()
	return int(b.Post("/registry/subjects/"+url.PathEscape(subject), spec)["id"].(float64))
}

// RegistryFault does something to the calls of the schema registry's clients.
func (b *Broker) RegistryFault(spec RegistryFaultSpec) *Fault {
	b.t.Helper()
	return b.set("/registry/faults", spec)
}
