module paceline.internal/deploy/manifests

go 1.26.0
