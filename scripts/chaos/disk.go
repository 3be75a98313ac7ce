package main

import (
	"fmt"
	"os"
	"time"

	"ao/nats/natstest"
)

// diskSize is the size of the disk under NATS in mode disk, in bytes.
const diskSize = 512 << 20

// mountDisk puts the files of NATS on a small disk.
func (s *stack) mountDisk() (err error) {
	dir := s.path("nats", "1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s.disk, err = natstest.MountDisk(s, dir, diskSize)
	if err != nil {
		return fmt.Errorf("SKIPPED: mode disk needs to mount a small file system: %w", err)
	}
	s.nats[0].command = s.disk.Command
	return nil
}

// diskVictims returns the disk, which is full for some seconds.
func (s *stack) diskVictims() victims {
	full := kind{"full", time.Second, 6 * time.Second, func(_ int, wait func()) error {
		s.disk.Fill()
		wait()
		s.disk.Free()
		return nil
	}}
	return victims{"disk", []string{"nats-1"}, []kind{full}, 3 * time.Second, 7 * time.Second, time.Minute,
		s.waitForNATS}
}

// Helper, Fatal and Cleanup make a stack the user of a disk.
func (s *stack) Helper() {}

// Fatal reports that a disk does not do what it must.
func (s *stack) Fatal(why ...any) { panic(fmt.Sprint(why...)) }

// Cleanup is called when the stack is removed.
func (s *stack) Cleanup(end func()) { s.ends = append(s.ends, end) }
