"""Looking after a home: is it sound, what is wrong with it, what mends that; backing it up and restoring it.

inspection   recomputes everything from Git and compares: findings
mending      makes anew what is derived, and nothing else
backup       writes a home's truth into a directory or archive, whether or not it is served
restoring    makes a home of a backup
"""
