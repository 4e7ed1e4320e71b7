module dnsforward

go 1.18
