module goid

go 1.18
