package natstest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FlipBit changes one bit of a stream's records while the server is not running, as a disk that decays does. at is
// where: 0 is the beginning of the first record, 1 the end of the last.
func (p *Process) FlipBit(stream string, at float64) {
	p.t.Helper()
	if err := FlipBit(p.c.StoreDir, stream, at); err != nil {
		p.t.Fatal(err)
	}
}

// FlipBit is Process.FlipBit for a server with that folder.
func FlipBit(storeDir, stream string, at float64) error {
	files, err := filepath.Glob(filepath.Join(storeDir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	sizes, most, sum := map[int]int64{}, 0, int64(0) // by block number
	for _, f := range files {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk"))
		i, err := os.Stat(f)
		if err != nil {
			return err
		}
		sizes[n], most, sum = i.Size(), max(most, n), sum+i.Size()
	}
	off := min(int64(at*float64(sum)), sum-1)
	for n := range most + 1 {
		if off < sizes[n] {
			return flip(filepath.Join(filepath.Dir(files[0]), strconv.Itoa(n)+".blk"), off)
		}
		off -= sizes[n]
	}
	return fmt.Errorf("stream %s has no records", stream)
}

// FlipRecord changes one bit in the newest record of a subject while the server is not running. What surrounds the
// record stays readable.
func (p *Process) FlipRecord(stream, subject string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.c.StoreDir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Reverse(files)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			p.t.Fatal(err)
		}
		at := bytes.LastIndex(raw, []byte(subject))
		if at < 0 {
			continue
		}
		if err := flip(f, int64(at+len(subject)+8)); err != nil { // behind the length of headers
			p.t.Fatal(err)
		}
		return
	}
	p.t.Fatalf("stream %s has no record of %s", stream, subject)
}

func flip(file string, off int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, off)
	}
	return err
}
