package odradek

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"time"
)

// Topic is a topic of the broker.
type Topic struct {
	broker *Broker
	Name   string
}

// Record is a record; a nil Value is a tombstone.
type Record struct {
	Partition int
	Offset    int64
	Timestamp time.Time
	Key       []byte
	Value     []byte
	Headers   map[string]string
	decoded   any // by its schema
}

// Text is the value as text.
func (r Record) Text() string { return string(r.Value) }

// JSON reads the value, which is JSON or decoded by its schema, and panics if it is no object.
func (r Record) JSON() map[string]any {
	if r.decoded != nil {
		return r.decoded.(map[string]any)
	}
	var found map[string]any
	if err := json.Unmarshal(r.Value, &found); err != nil {
		panic(err)
	}
	return found
}

// Topic makes a topic unless it exists.
func (b *Broker) Topic(name string, partitions int, configs ...map[string]any) *Topic {
	b.t.Helper()
	body := map[string]any{"topic": name, "partitions": partitions}
	if len(configs) > 0 {
		body["configs"] = configs[0]
	}
	b.Post("/topics", body)
	return &Topic{b, name}
}

// Produce writes a record: the value is []byte, a string, nil for a tombstone, or else written as JSON.
func (t *Topic) Produce(key string, value any) {
	t.broker.t.Helper()
	record := map[string]any{}
	if key != "" {
		record["key"] = key
	}
	switch given := value.(type) {
	case nil:
	case string:
		record["value"] = given
	case []byte:
		record["value_base64"] = base64.StdEncoding.EncodeToString(given)
	default:
		text, err := json.Marshal(given)
		if err != nil {
			t.broker.t.Fatal(err)
		}
		record["value"] = string(text)
	}
	t.broker.Post(t.path("/records"), map[string]any{"records": []any{record}})
}

// ProduceBySchema writes a record whose value is encoded by the schema with this id.
func (t *Topic) ProduceBySchema(key string, value any, id int) {
	t.broker.t.Helper()
	record := map[string]any{"json": value, "schema": map[string]any{"id": id}}
	if key != "" {
		record["key"] = key
	}
	t.broker.Post(t.path("/records"), map[string]any{"records": []any{record}})
}

// Expect waits for a record like this, and returns it. Otherwise the test fails, with the nearest one field by field.
func (t *Topic) Expect(expected Expected) Record { t.broker.t.Helper(); return t.Wait(expected)[0] }

// Wait waits for Count records like this (1 if it is nil), and returns them.
func (t *Topic) Wait(expected Expected) []Record {
	t.broker.t.Helper()
	expected.Timeout = t.broker.seconds(expected.Timeout)
	return records(t.broker.Post(t.path("/wait"), expected))
}

// Records are those that are there now, without those of open and aborted transactions.
func (t *Topic) Records() []Record {
	t.broker.t.Helper()
	return records(t.broker.Get(t.path("/records")))
}

// Truncate deletes all records; new ones get the offsets that follow.
func (t *Topic) Truncate() { t.broker.t.Helper(); t.broker.Post(t.path("/truncate"), nil) }

func (t *Topic) path(end string) string { return "/topics/" + url.PathEscape(t.Name) + end }

func records(answer map[string]any) []Record {
	var found []Record
	for _, each := range answer["records"].([]any) {
		fields := each.(map[string]any)
		record := Record{
			Partition: int(fields["partition"].(float64)),
			Offset:    int64(fields["offset"].(float64)),
			Timestamp: time.UnixMilli(int64(fields["timestamp"].(float64))),
			Key:       content(fields, "key"),
			Value:     content(fields, "value"),
			Headers:   map[string]string{},
			decoded:   fields["json"],
		}
		for _, header := range fields["headers"].([]any) {
			pair := header.(map[string]any)
			record.Headers[pair["key"].(string)] = string(content(pair, "value"))
		}
		found = append(found, record)
	}
	return found
}

func content(fields map[string]any, name string) []byte {
	if text, ok := fields[name].(string); ok {
		return []byte(text)
	}
	if text, ok := fields[name+"_base64"].(string); ok {
		decoded, _ := base64.StdEncoding.DecodeString(text)
		return decoded
	}
	return nil
}

// ExpectExactlyOnce waits until each record of source has led to exactly one committed record of sink, by their keys.
func (b *Broker) ExpectExactlyOnce(source, sink string) {
	b.t.Helper()
	b.Post("/exactly-once", map[string]any{"source": source, "sink": sink, "timeout": b.timeout.Seconds()})
}
