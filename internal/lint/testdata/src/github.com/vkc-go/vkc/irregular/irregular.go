package irregular // want `no rule covers package irregular: add a row to internal/lint/rules.go`
