module abi

go 1.18
