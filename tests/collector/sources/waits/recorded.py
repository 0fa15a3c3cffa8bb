"""Files as kernels print them. ``DISKSTATS`` and ``PRESSURE`` are recordings of a Linux 6.18
machine; the others follow the code that prints them, as no NFS or Lustre is mounted there.
"""

DISKSTATS = """\
   7       0 loop0 1792 63 25046 232 18308 33120 1003000 11993 0 11132 21592 0 0 0 0 14021 9367
   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 4061276 291237 128123946 17050259 2377291 5192130 343580776 3298741 0 1277412 \
20924389 3514080 117 1244295064 411976 407744 163411
 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 12 0 96 4294967290 2 0 16 1 0 5 5
 259       1 nvme0n1p1 12 0 96 7 2 0 16 1 0 5 5
"""
PRESSURE = """\
some avg10=0.18 avg60=0.76 avg300=1.99 total=912631860
full avg10=0.00 avg60=0.16 avg300=1.60 total=237818371
"""
CPU_STAT = """\
usage_usec 51515151
user_usec 40000000
system_usec 11515151
nr_periods 600
nr_throttled 120
throttled_usec 7700000
"""
NFS = """\
device rootfs mounted on / with fstype rootfs
device /dev/sda1 mounted on /boot with fstype ext4
device filer:/datasets mounted on {mountpoint} with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,timeo=600,retrans=2,sec=sys
\tage:\t{age}
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0x7fff7,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x60803,acl=0x3,sessions,pnfs=not configured
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 0 0 0 0 0 0 0 0 0
\tbytes:\t5000 6000 0 0 7000 8000 2 2
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
\tper-op statistics
\t        NULL: 0 0 0 0 0 0 0 0 0
\t        READ: 1300 1302 1 207680 1210292152 6 79000 79400 0
\t       WRITE: 40 40 0 41000000 5000 3 800 900 0
\t      ACCESS: 500 500 0 70000 60000 18446743919241604546 200 300 1
\t     GETATTR: 600 600 0 80000 90000 2 250 360 0

"""
LUSTRE = """\
device 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch mounted on /scratch with fstype lustre
"""
# llite of 2.15: what programs ask, with times.
LLITE = """\
snapshot_time             1634579410.123456789 secs.nsecs
start_time                1634570000.123456789 secs.nsecs
elapsed_time              9410.000000000 secs.nsecs
read_bytes                2700 samples [bytes] 4096 1048576 1400000 73014444032
write_bytes               160 samples [bytes] 1 1048576 90000 73014444032
read                      2700 samples [usecs] 4 90000 8100000 73014444032
write                     160 samples [usecs] 4 90000 320000 73014444032
seek                      99 samples [usecs] 1 2 100 200
open                      20 samples [usecs] 100 900 6000 2000000
getattr                   30 samples [usecs] 10 90 900 30000
"""
# llite of 2.12 counts calls only; osc and mdc have times.
OLD_LLITE = """\
snapshot_time             1534579410.123456789 secs.nsecs
read_bytes                2700 samples [bytes] 4096 1048576 1400000
write_bytes               160 samples [bytes] 1 1048576 90000
open                      20 samples [regs]
"""
OSC = """\
snapshot_time             1534579410.123456 secs.usecs
req_waittime              3000 samples [usec] 31 17820911 900000 -3193831078871982772
req_active                3000 samples [reqs] 1 8243 4000 731470318467
ost_read                  1000 samples [usec] 60 17820911 700000 5512071507059074
ost_write                 10 samples [usec] 86 15329179 50000 5245570501603571
"""
MDC = """\
snapshot_time             1534579410.123456 secs.usecs
req_waittime              70 samples [usec] 31 17820911 21000 28824671200467887
"""
