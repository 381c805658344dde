module odradek

go 1.21
