// Kfake of franz-go for `benchmarks.kit`: for each line, the name of a topic, a new cluster of one broker that has it.
// The answer is a line with its address. The cluster before it is closed.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	var last *kfake.Cluster
	for topics := bufio.NewScanner(os.Stdin); topics.Scan(); {
		if last != nil {
			last.Close()
			last = nil
		}
		if topics.Text() == "" {
			fmt.Println()
			continue
		}
		last = kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics.Text()))
		fmt.Println(last.ListenAddrs()[0])
	}
}
