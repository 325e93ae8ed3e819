package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxMessage bounds one message: the largest source that is read, with room for JSON's escapes.
const maxMessage = 64 << 20

// maxHeader bounds the header of a message.
const maxHeader = 8 << 10

// request is what a client sends: a request, or without an ID a notification.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// rpcError is JSON-RPC's error object.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// Codes of JSON-RPC 2.0 and of the protocol.
const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
	internalError  = -32603
	notInitialized = -32002
)

// read takes one message off the stream. An error means that the stream is of no more use: it ended, or its framing is
// lost.
func read(r *bufio.Reader) ([]byte, error) {
	length, size := -1, 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && size == 0 && len(line) == 0 {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("read a message's header: %w", err)
		}
		if size += len(line); size > maxHeader {
			return nil, fmt.Errorf("read a message's header: longer than %d bytes", maxHeader)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("read a message's header: %.40q is no field", text)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 || length > maxMessage {
				return nil, fmt.Errorf("read a message's header: length %.40q: at most %d bytes are read", value,
					maxMessage)
			}
		}
	}
	if length < 0 {
		return nil, errors.New("read a message's header: no Content-Length")
	}
	var body strings.Builder // grows with what comes, not with what is promised
	if n, err := io.CopyN(&body, r, int64(length)); err != nil {
		return nil, fmt.Errorf("read a message: %d of %d bytes: %w", n, length, err)
	}
	return []byte(body.String()), nil
}

func write(w io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	_, err = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(text), text)
	return err
}
