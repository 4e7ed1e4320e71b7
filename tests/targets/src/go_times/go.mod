module times

go 1.18
