package keyring

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"ao/nats/disk"
)

// storeLimits writes each NATS server's storage limit into its data folder. A limit that still fits is never reduced:
// a running server would refuse to reload its configuration.
func (r *Result) storeLimits(w Options) error {
	folders := make([]disk.StoreUsage, len(w.NATSData))
	sharing := map[uint64]int{}
	for i, dir := range w.NATSData {
		f, err := disk.StoreUsageOf(dir)
		if err != nil {
			return fmt.Errorf("the data folder of NATS: %w", err)
		}
		folders[i] = f
		sharing[f.Device]++
	}
	for i, f := range folders {
		if err := r.storeLimit(w.NATSData[i], f, sharing[f.Device], w.Store); err != nil {
			return err
		}
	}
	return nil
}

// storeLimit writes the storage limit of one server; requested 0: what fits on its disk.
func (r *Result) storeLimit(dir string, f disk.StoreUsage, sharing int, requested int64) error {
	name, err := r.relative(filepath.Join(dir, "store.conf"))
	if err != nil {
		return err
	}
	have, err := r.read(name)
	if err != nil {
		return err
	}
	size, current := requested, sizeIn(have)
	if size == 0 {
		size = f.MaxStore(sharing)
		if size == 0 {
			return fmt.Errorf(
				"size of the disk of %s is unknown; set AO_NATS_STORE to the storage limit of NATS, such as 10GB", dir)
		}
		if current > size && f.Fits(current, sharing) {
			size = current
		}
	}
	err = r.writeDerived(name, fmt.Sprintf("storage limit of NATS, %d MiB: included by the server's configuration%s",
		size>>20, sizeWarning(f, size, sharing)), fmt.Sprintf("# Written by 'ao init': storage limit of this server "+
		"in bytes. Its configuration includes it in the block jetstream.\nmax_file_store: %d\n", size))
	if err != nil && current > 0 {
		r.Files[len(r.Files)-1] = File{
			name, stateKept, fmt.Sprintf("storage limit of NATS, still %d MiB; %d MiB could not be written: %v",
				current>>20, size>>20, err)}
		return nil // a full disk must not keep an existing deployment from starting
	}
	return err
}

// sizeWarning returns what is wrong with a limit; empty: nothing.
func sizeWarning(f disk.StoreUsage, size int64, sharing int) string {
	switch {
	case size < f.Reserved:
		return fmt.Sprintf("; its streams may hold %d MiB", f.Reserved>>20)
	case f.Total > 0 && !f.Fits(size, sharing):
		return "; its disk has less"
	}
	return ""
}

// relative returns a path relative to the folder of the result.
func (r *Result) relative(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.Rel(r.Dir, path)
}

var storeLine = regexp.MustCompile(`(?m)^max_file_store: (\d+)$`)

// sizeIn reads the limit from an existing file; 0: none.
func sizeIn(text []byte) int64 {
	m := storeLine.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

var sizeText = regexp.MustCompile(`^([0-9]{1,18})(?:([KMGT])(I?B)?)?$`)

// ReadSize parses a size as NATS does: 10GB and 10GiB are 10 * 2^30 bytes, 10G is 10 * 10^9. Empty: 0.
func ReadSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	m := sizeText.FindStringSubmatch(strings.ToUpper(text))
	if m == nil {
		return 0, fmt.Errorf("size %q: write a number of bytes, or one such as 10GB", text)
	}
	factor, unit := int64(1), int64(1024)
	if m[3] == "" {
		unit = 1000
	}
	for range len(m[2]) * (1 + strings.Index("KMGT", m[2])) {
		factor *= unit
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > maxStore/factor || n*factor < minStore {
		return 0, fmt.Errorf("size %q: write one from 64MB to 1024TB", text)
	}
	return n * factor, nil
}

// Limits of a size: less holds no streams, more is a typing error.
const (
	minStore = 64 << 20
	maxStore = 1 << 50
)
