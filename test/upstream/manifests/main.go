// Command manifests reads texts as kubectl reads manifests. The input is a stream of texts as JSON strings. The output is
// a stream of JSON values that contain the values in each text, and the error with which the reading ended.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// bufferSize is the size that kubectl passes to the decoder.
// See https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go
const bufferSize = 4096

type result struct {
	Values []json.RawMessage `json:"values"`
	Error  string            `json:"error,omitempty"`
}

func read(text string) result {
	found := result{Values: []json.RawMessage{}}
	// kubectl skips the byte order mark.
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.TrimPrefix([]byte(text), []byte("\ufeff"))), bufferSize)
	for {
		extension := runtime.RawExtension{}
		if err := decoder.Decode(&extension); err != nil {
			if !errors.Is(err, io.EOF) {
				found.Error = err.Error()
			}
			return found
		}
		raw := bytes.TrimSpace(extension.Raw)
		if len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
			found.Values = append(found.Values, json.RawMessage(raw))
		}
	}
}

func main() {
	input := json.NewDecoder(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		var text string
		if err := input.Decode(&text); err != nil {
			if errors.Is(err, io.EOF) {
				return
			}
			log.Fatal(err)
		}
		if err := output.Encode(read(text)); err != nil {
			log.Fatal(err)
		}
	}
}
