module ao/shared/clients/go

go 1.24
