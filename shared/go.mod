module ao/shared

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/qri-io/jsonpointer v0.1.1
	github.com/qri-io/jsonschema v0.2.1
)
