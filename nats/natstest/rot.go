package natstest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FlipBit changes one bit of a stream's records while the server is not running, as a disk that decays does. at is
// where: 0 is the beginning of the first record, 1 the end of the last.
func (p *Process) FlipBit(stream string, at float64) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.c.StoreDir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		p.t.Fatalf("stream %s has no files: %v", stream, err)
	}
	sizes, sum := make([]int64, len(files)+1), int64(0) // by block number
	for _, f := range files {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk"))
		i, err := os.Stat(f)
		if err != nil || n >= len(sizes) {
			p.t.Fatalf("file %s: %v", f, err)
		}
		sizes[n], sum = i.Size(), sum+i.Size()
	}
	off := min(int64(at*float64(sum)), sum-1)
	for n, size := range sizes {
		if off < size {
			flip(p, filepath.Join(filepath.Dir(files[0]), strconv.Itoa(n)+".blk"), off)
			return
		}
		off -= size
	}
}

func flip(p *Process, file string, off int64) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, off)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
