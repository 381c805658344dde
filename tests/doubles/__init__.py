"""What tests put in the place of disks, threads and time, at the seams of docs/design.md."""
