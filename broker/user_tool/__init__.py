"""`odradek user`: add, list and delete the users of SCRAM, of a running broker or in the folder of a stopped one."""
