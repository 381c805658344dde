// Login sends one record with franz-go over TLS and SASL, and prints "sent", or why it was refused.
//
// Its argument is JSON: bootstrap, topic, protocol, mechanism, user, password, token, ca, certificate, patience_s.
// With a second argument, it sends a record for each line of the input by the same client, and prints each outcome.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Bootstrap   string  `json:"bootstrap"`
	Topic       string  `json:"topic"`
	Protocol    string  `json:"protocol"`
	Mechanism   string  `json:"mechanism"`
	User        string  `json:"user"`
	Password    string  `json:"password"`
	Token       string  `json:"token"`
	CA          string  `json:"ca"`
	Certificate string  `json:"certificate"`
	PatienceS   float64 `json:"patience_s"`
}

func main() {
	var one login
	check(json.Unmarshal([]byte(os.Args[1]), &one))
	patience := time.Duration(one.PatienceS * float64(time.Second))
	options := []kgo.Opt{
		kgo.SeedBrokers(one.Bootstrap),
		kgo.DefaultProduceTopic(one.Topic),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(patience),
	}
	if strings.HasSuffix(one.Protocol, "SSL") {
		options = append(options, kgo.DialTLSConfig(one.tls()))
	}
	if one.Mechanism != "" {
		options = append(options, kgo.SASL(one.sasl()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	if len(os.Args) == 2 {
		// A producer tries again until its records time out; this tells at once.
		if err := client.Ping(context.Background()); err != nil {
			fmt.Println(outcome(err))
			return
		}
		fmt.Println(send(client, "x", patience))
		return
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		fmt.Println(send(client, input.Text(), patience))
	}
	check(input.Err())
}

func send(client *kgo.Client, value string, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return outcome(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
}

func outcome(err error) string {
	var refused *kerr.Error
	switch {
	case err == nil:
		return "sent"
	case errors.As(err, &refused):
		return refused.Message
	default:
		return err.Error()
	}
}

func (one login) tls() *tls.Config {
	config := &tls.Config{ServerName: "localhost", RootCAs: x509.NewCertPool()}
	pem, err := os.ReadFile(one.CA)
	check(err)
	config.RootCAs.AppendCertsFromPEM(pem)
	if one.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(one.Certificate, one.Certificate)
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func (one login) sasl() sasl.Mechanism {
	switch one.Mechanism {
	case "PLAIN":
		return plain.Auth{User: one.User, Pass: one.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: one.User, Pass: one.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: one.User, Pass: one.Password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: one.Token}.AsMechanism()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
