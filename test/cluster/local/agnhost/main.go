// The parts of Kubernetes' agnhost that its tests of networks call, and what these call beside it: the published image has
// them from its Alpine Linux.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/test/images/agnhost/connect"
	"k8s.io/kubernetes/test/images/agnhost/netexec"
	nosnat "k8s.io/kubernetes/test/images/agnhost/no-snat-test"
	"k8s.io/kubernetes/test/images/agnhost/pause"
)

func main() {
	var err error
	switch filepath.Base(os.Args[0]) {
	case "curl":
		err = curl(os.Args[len(os.Args)-1])
	case "nc":
		err = nc(os.Args[len(os.Args)-2:])
	default:
		root := &cobra.Command{Use: "agnhost"}
		root.AddCommand(connect.CmdConnect, netexec.CmdNetexec, nosnat.CmdNoSnatTest, pause.CmdPause)
		os.Exit(cli.Run(root))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// curl prints what is at the URL. The tests' flags only set shorter times and silence.
func curl(url string) error {
	if !strings.HasPrefix(url, "http") {
		url = "http://" + url
	}
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// nc sends its input as a datagram and prints the answer that comes within a second: `nc -w 1 -u HOST PORT`.
func nc(target []string) error {
	connection, err := net.Dial("udp", net.JoinHostPort(target[0], target[1]))
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := io.Copy(connection, os.Stdin); err != nil {
		return err
	}
	if err := connection.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	answer := make([]byte, 65536)
	count, err := connection.Read(answer)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(answer[:count])
	return err
}
