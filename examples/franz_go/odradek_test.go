package stock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// values is an object in JSON.
type values = map[string]any

// broker is an Odradek in a test's hands, over HTTP.
type broker struct {
	bootstrap string
	url       string // of its control interface
	token     string
	stop      func()
}

// startBroker starts `odradek serve` (the variable ODRADEK has another command); it ends with this process, however that
// ends. With BROKER_CONTROL=http://HOST:PORT and perhaps BROKER_TOKEN it uses a broker that runs already.
func startBroker() (*broker, error) {
	b := &broker{url: os.Getenv("BROKER_CONTROL"), token: os.Getenv("BROKER_TOKEN"), stop: func() {}}
	if b.url == "" {
		if err := b.startProcess(); err != nil {
			return nil, err
		}
	}
	status, err := b.send("GET", "/status", nil)
	if err != nil {
		return nil, err
	}
	for _, address := range status["listeners"].(values) {
		b.bootstrap = address.(string)
	}
	return b, nil
}

func (b *broker) startProcess() error {
	data, err := os.MkdirTemp("", "odradek-")
	if err != nil {
		return err
	}
	command := "odradek"
	if given := os.Getenv("ODRADEK"); given != "" {
		command = given
	}
	words := append(strings.Fields(command), "serve", "--profile", "test", "--control", "127.0.0.1:0",
		"--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "odradek.http.port=-1", "--set", "log.dirs="+data,
		"--ready-fd", "3", "--exit-with-parent", "--remove-with-parent", data)
	process := exec.Command(words[0], words[1:]...)
	ready, toBroker, err := os.Pipe()
	if err != nil {
		return err
	}
	process.ExtraFiles = []*os.File{toBroker}
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	toBroker.Close()
	line, err := bufio.NewReader(ready).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the broker did not start: %w", err)
	}
	var started struct{ Control string }
	if err := json.Unmarshal(line, &started); err != nil {
		return err
	}
	b.url = started.Control
	b.stop = func() { stdin.Close(); process.Wait() }
	return nil
}

// send sends a request to the control interface; what it refuses, and a wait in vain, are errors.
func (b *broker) send(method, path string, body values) (values, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequest(method, b.url+"/control"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if b.token != "" {
		request.Header.Set("Authorization", "Bearer "+b.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer values
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if response.StatusCode >= 400 {
		return nil, errors.New(answer["error"].(string))
	}
	return answer, nil
}

// post sends a request that must succeed.
func (b *broker) post(t *testing.T, path string, body values) values {
	t.Helper()
	answer, err := b.send("POST", path, body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return answer
}

// fault sets a fault, until the end of the test or until `remove` is called.
func (b *broker) fault(t *testing.T, path string, body values) (id string, remove func()) {
	t.Helper()
	id = b.post(t, path, body)["id"].(string)
	remove = func() { b.send("DELETE", "/faults/"+id, nil) }
	t.Cleanup(remove)
	return id, remove
}

// awaitHit waits until a fault has struck.
func (b *broker) awaitHit(t *testing.T, id string) {
	t.Helper()
	b.post(t, "/faults/"+id+"/wait", values{"timeout": seconds})
}
