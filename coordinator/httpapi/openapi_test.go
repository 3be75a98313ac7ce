package httpapi

import "testing"

// TestEveryRouteIsDescribed: what each reads and answers is in bodies, and nothing else is.
func TestEveryRouteIsDescribed(t *testing.T) {
	documented := map[string]bool{}
	for _, r := range New(Config{}).routes {
		key := r.Method + " " + r.Path
		documented[key] = true
		if _, ok := bodies[key]; !ok {
			t.Errorf("%s: what it reads and answers is said nowhere; add its row to bodies in openapi_bodies.go", key)
		}
		for _, name := range r.Query {
			if parameters[name] == nil {
				t.Errorf("%s: parameter %s is described nowhere; add it to parameters in openapi.go", key, name)
			}
		}
	}
	for key := range bodies {
		if !documented[key] {
			t.Errorf("%s: there is no such route", key)
		}
	}
}
