"""What a started program may see and reach, and the means of the machine that keep it there."""
