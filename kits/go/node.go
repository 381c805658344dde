package odradek

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// node is a broker's process, its container, or one elsewhere.
type node struct {
	options   Options
	bootstrap string
	url       string
	token     string
	schemas   string // the schema registry's URL, once it was asked for: the next start has it, too
	registry  any    // of a container: where its schema registry is to listen, at a port that is published
	folder    string // of a process of ours: its data, its log, and the file that says that it serves
	listeners string
	process   *exec.Cmd
	stdin     io.Closer // closed by whatever ends this process, whereupon the broker ends too
	ended     chan struct{}
	log       *os.File
}

func startNode(options Options) (*node, error) {
	n := &node{options: options, url: os.Getenv("BROKER_CONTROL"), token: os.Getenv("BROKER_TOKEN")}
	if n.url != "" {
		if len(options.Settings) > 0 || options.Own {
			return nil, errors.New("BROKER_CONTROL names a broker that runs already: it has settings of its own, and is no test's own")
		}
		return n, n.askAddress()
	}
	folder, err := os.MkdirTemp("", "odradek-")
	if err != nil {
		return nil, err
	}
	n.folder, n.listeners = folder, "PLAINTEXT://127.0.0.1:0"
	if err := n.start(); err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	return n, nil
}

func (n *node) start() error {
	if image := os.Getenv("BROKER_IMAGE"); image != "" {
		return n.startContainer(image)
	}
	return n.startProcess()
}

// run starts a command whose broker ends when its standard input does.
func (n *node) run(words []string) error {
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("%w: install odradek where its command is on the path, or set ODRADEK (a command), BROKER_IMAGE or BROKER_CONTROL", err)
	}
	process := exec.Command(words[0], words[1:]...)
	process.Env = withoutSettings(os.Environ())
	var err error
	if n.log == nil {
		n.log, err = os.OpenFile(filepath.Join(n.folder, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
	}
	process.Stdout, process.Stderr = n.log, n.log
	if n.stdin, err = process.StdinPipe(); err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	n.process, n.ended = process, make(chan struct{})
	go func(ended chan struct{}) { process.Wait(); close(ended) }(n.ended)
	return nil
}

// withoutSettings leaves out variables from which a broker would read settings.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "KAFKA_") && !strings.HasPrefix(variable, "ODRADEK_") && !strings.HasPrefix(variable, "CLUSTER_ID=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func (n *node) profile() string {
	if n.options.Profile == "" {
		return "test"
	}
	return n.options.Profile
}

func (n *node) startProcess() error {
	ready := filepath.Join(n.folder, "ready.json")
	os.Remove(ready)
	command := os.Getenv("ODRADEK")
	if command == "" {
		command = "odradek"
	}
	words := append(strings.Fields(command), "serve", "--profile", n.profile(), "--control", "127.0.0.1:0",
		"--set", "listeners="+n.listeners, "--set", "odradek.http.port=-1", "--set", "log.dirs="+filepath.Join(n.folder, "data"),
		"--ready-file", ready, "--exit-with-parent", "--remove-with-parent", n.folder)
	if n.schemas != "" {
		words = append(words, "--set", "schema.registry.listeners="+n.schemas)
	}
	for name, value := range n.options.Settings {
		words = append(words, "--set", name+"="+value)
	}
	if err := n.run(words); err != nil {
		return err
	}
	var told struct{ Control, Bound string }
	err := n.await(func() bool {
		text, err := os.ReadFile(ready)
		return err == nil && bytes.HasSuffix(text, []byte("\n")) && json.Unmarshal(text, &told) == nil
	})
	if err != nil {
		return err
	}
	n.url, n.listeners = told.Control, told.Bound // the next start has the same port
	return n.askAddress()
}

func (n *node) startContainer(image string) error {
	if n.token == "" {
		secret := make([]byte, 16)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		n.token = hex.EncodeToString(secret)
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	kafka, control, registry := ports[0], ports[1], ports[2]
	n.registry = map[string]any{"host": "0.0.0.0", "port": registry}
	command := os.Getenv("CONTAINER_COMMAND")
	if command == "" {
		command = "docker"
	}
	words := append(strings.Fields(command), "run", "--rm", "--interactive")
	for _, port := range ports {
		words = append(words, "--publish", fmt.Sprintf("127.0.0.1:%d:%d", port, port))
	}
	words = append(words,
		"--env", fmt.Sprintf("KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:%d", kafka),
		"--env", fmt.Sprintf("KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:%d", kafka),
		"--env", fmt.Sprintf("ODRADEK_CONTROL=0.0.0.0:%d", control), "--env", "ODRADEK_CONTROL_TOKEN="+n.token,
		image, "serve", "--profile", n.profile(), "--exit-with-parent")
	for name, value := range n.options.Settings {
		words = append(words, "--set", name+"="+value)
	}
	if err := n.run(words); err != nil {
		return err
	}
	os.RemoveAll(n.folder) // it has the log alone, which stays open: nobody would remove it once this process has ended
	n.url = fmt.Sprintf("http://127.0.0.1:%d", control)
	if err := n.await(func() bool { _, err := n.send("GET", "/status", nil); return err == nil }); err != nil {
		return err
	}
	return n.askAddress()
}

func freePorts(count int) ([]int, error) {
	var ports []int
	for len(ports) < count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // not before all are chosen
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// await waits until the broker serves.
func (n *node) await(serves func() bool) error {
	patience := n.options.StartTimeout
	if patience == 0 {
		patience = 30 * time.Second
	}
	deadline := time.Now().Add(patience)
	for !serves() {
		if !n.runs() {
			return fmt.Errorf("the broker did not start:\n%s", n.lastWords())
		}
		if time.Now().After(deadline) {
			n.kill()
			return fmt.Errorf("the broker did not start within %v (Options.StartTimeout gives it longer):\n%s", patience, n.lastWords())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func (n *node) askAddress() error {
	status, err := n.send("GET", "/status", nil)
	if err != nil {
		return err
	}
	for _, address := range status["listeners"].(map[string]any) {
		n.bootstrap = address.(string)
	}
	return nil
}

// -- its end

func (n *node) runs() bool {
	if n.process == nil {
		return n.folder == "" // elsewhere
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

func (n *node) awaitEnd(timeout time.Duration) bool {
	select {
	case <-n.ended:
		return true
	case <-time.After(timeout):
		return false
	}
}

func (n *node) requireProcess() error {
	if n.process == nil || os.Getenv("BROKER_IMAGE") != "" {
		return errors.New("odradek: a broker of BROKER_CONTROL or BROKER_IMAGE cannot be killed or restarted from here")
	}
	return nil
}

func (n *node) stop() {
	if n.runs() && n.stdin != nil {
		n.process.Process.Signal(os.Interrupt)
		if !n.awaitEnd(15 * time.Second) {
			n.kill()
		}
	}
}

func (n *node) kill() {
	if n.process != nil {
		n.process.Process.Kill()
		<-n.ended
	}
}

func (n *node) close() {
	n.stop()
	os.RemoveAll(n.folder)
	if n.log != nil {
		n.log.Close()
	}
}

func (n *node) lastWords() string {
	if n.log == nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(n.log, 0, 1<<30))
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// -- requests

// send sends a request to the control interface. What it refuses, and a wait in vain, are errors.
func (n *node) send(method, path string, body any) (map[string]any, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequest(method, n.url+"/control"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if n.token != "" {
		request.Header.Set("Authorization", "Bearer "+n.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s is no control interface: status %d", n.url, response.StatusCode)
	}
	if response.StatusCode >= 400 {
		return nil, fmt.Errorf("%v", answer["error"])
	}
	return answer, nil
}
