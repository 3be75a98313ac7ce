// Package stream is what a stream holds, for those who read it and need not know what carries it.
package stream

import (
	"errors"
	"time"
)

// Message is a message as a stream keeps it.
type Message struct {
	Seq     uint64 // in its stream, from 1
	Subject string
	Body    []byte
	Time    time.Time // when the stream took it
}

// State is what a stream holds; of an empty one First is Last+1.
type State struct {
	First, Last uint64
	Msgs        uint64
	Bytes       uint64
	MaxBytes    int64 // -1: no limit
	Created     time.Time
}

var (
	// ErrNotFound says that there is nothing under that subject, sequence, key or name.
	ErrNotFound = errors.New("none")
	// ErrHistoryReplaced says that a stream is not the one that was read: it lost records and gave their sequences to others, or
	// truncated some that had not been read.
	ErrHistoryReplaced = errors.New("rewound")
)
