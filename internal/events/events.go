// Package events carries events, one JSON object each: from the processes of a run over a socket, into a file, and out
// of one, whole or while it grows. What they mean it does not know. docs/formats/events.md describes them, and the
// lines of the file.
package events

// Sink takes events in the order in which they come. Its methods may be called from several goroutines at once where
// the source is a Server.
type Sink interface {
	Add(connection int, event []byte) // the event is valid JSON, and the sink's only until Add returns
	Unreadable()                      // a line came that is none
}

// maxLine is the longest event that is read, bytes.
const maxLine = 64 << 20
