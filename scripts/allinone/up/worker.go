package up

import (
	"fmt"
	"os"

	"ao/shared/config"
	worker "ao/worker/serve"
)

// Worker is the main function of a program of this name: a worker more, beside Main's. It is a runner of its own.
func Worker(name string) {
	var data string
	worker.Main(name, func(w *worker.Config) error {
		if w.Host == "" { // the runner of Main has this machine's name
			host, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("hostname: %w; set AO_HOSTNAME", err)
			}
			w.Host = fmt.Sprintf("%s-%d", host, os.Getpid())
		}
		switch info, err := os.Stat(checkoutProfiles); {
		case w.ProfilesDir != "":
			return nil
		case err == nil && info.IsDir():
			w.ProfilesDir = checkoutProfiles
			w.Profiles = shippedProfiles(w.Profiles)
			return nil
		}
		return useShipped(data, w)
	}, config.DataDir.To(&data))
}

// checkoutProfiles is where a checkout has its profiles.
const checkoutProfiles = "worker/profiles"
