module faults

go 1.18
