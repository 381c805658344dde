// Uses a schema registry by franz-go's own client (pkg/sr), and prints what it found as JSON: a line for each step.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	user    = `{"type":"record","name":"U","fields":[{"name":"a","type":"int"}]}`
	changed = `{"type":"record","name":"U","fields":[{"name":"c","type":"int"}]}`
	grown   = `{"type":"record","name":"U","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}`
	order   = `{"type":"record","name":"O","fields":[{"name":"u","type":"U"}]}`
	message = `syntax = "proto3"; message M { int32 a = 1; }`
	object  = `{"type":"object","properties":{"a":{"type":"integer"}}}`
)

func say(step string, value any, err error) {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		value = refused.ErrorCode
	} else if err != nil {
		fmt.Fprintln(os.Stderr, step, err)
		os.Exit(1)
	}
	line, _ := json.Marshal([]any{step, value})
	fmt.Println(string(line))
}

func main() {
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	register := func(step, subject string, schema sr.Schema) {
		made, err := client.CreateSchema(ctx, subject, schema)
		say(step, []int{made.ID, made.Version}, err)
	}
	register("avro", "go-value", sr.Schema{Schema: user})
	register("again", "go-value", sr.Schema{Schema: user})
	register("grown", "go-value", sr.Schema{Schema: grown})
	register("changed", "go-value", sr.Schema{Schema: changed})
	register("protobuf", "go-p", sr.Schema{Schema: message, Type: sr.TypeProtobuf})
	register("json", "go-j", sr.Schema{Schema: object, Type: sr.TypeJSON})
	references := []sr.SchemaReference{{Name: "U", Subject: "go-value", Version: 1}}
	register("reference", "go-o", sr.Schema{Schema: order, References: references})
	found, err := client.SchemaByID(ctx, 1)
	say("by id", found.Schema, err)
	looked, err := client.LookupSchema(ctx, "go-value", sr.Schema{Schema: grown})
	say("look up", looked.Version, err)
	fits, err := client.CheckCompatibility(ctx, "go-value", -1, sr.Schema{Schema: changed})
	say("fits", fits.Is, err)
	say("level", client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-value")[0].Level.String(), nil)
	say("mode", client.SetMode(ctx, sr.ModeReadWrite, "go-value")[0].Mode.String(), nil)
	subjects, err := client.Subjects(ctx)
	say("subjects", subjects, err)
	_, err = client.DeleteSubject(ctx, "go-value", sr.SoftDelete)
	say("referred to", nil, err)
	gone, err := client.DeleteSubject(ctx, "go-o", sr.SoftDelete)
	say("deleted", gone, err)
	gone, err = client.DeleteSubject(ctx, "go-o", sr.HardDelete)
	say("removed", gone, err)
}
