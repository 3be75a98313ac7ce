package highwater

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// fileName is the mark's file in a data folder. The bucket is on the disk that the history is on; the file is not.
const fileName = "highwater.json"

// readFile returns the mark in a folder; nil: there is none.
func readFile(dir string) (*mark, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m mark
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// writeFile stores a mark: all of it, or the one before remains.
func writeFile(dir string, raw []byte) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(dir, fileName+".*.part")
	if err != nil {
		return err
	}
	_, err = part.Write(raw)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(dir, fileName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
