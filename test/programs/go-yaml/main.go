// Reads texts as the Go agents and kubectl do: each line of standard input is a text in JSON, each line of standard output what
// was read of it in JSON, or an error.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type request struct {
	IsManifest bool   `json:"isManifest"`
	Text       string `json:"text"`
}

type answer struct {
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var asked request
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		var said answer
		var err error
		if asked.IsManifest {
			said.Value, err = objects(asked.Text)
		} else {
			err = yaml.Unmarshal([]byte(asked.Text), &said.Value)
		}
		if err != nil {
			said = answer{Error: err.Error()}
		}
		line, err := json.Marshal(said)
		if err != nil {
			panic(err)
		}
		out.Write(append(line, '\n'))
	}
}

// As kubectl apply --filename does, before it asks the API server.
func objects(text string) ([]any, error) {
	found := []any{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		var object any
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		found = append(found, object)
	}
}
