// shared: the mailbox, and waiting until a flag reaches an epoch. The memory is volatile because other devices change it
// while a kernel reads it. A kernel that waits too long records its epoch and goes on.

layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile
buffer Mailbox { uint words[]; };
void await_flag(Mailbox box, Mailbox flags, uint at, uint rank, uint epoch, uint most) {
    for (uint tries = 1u; tries <= most; ++tries) {
        if (int(flags.words[at] - epoch) >= 0) return;
        if ((tries & 255u) == 0u && flags.words[0] != 0u) break;
    }
    box.words[64u + rank] = epoch;
}

// start: the beginning of each kernel. In a slot, each group of 8 words holds 7 values and the epoch: word w holds value
// (w/8)*7 + w%8. A reader recognizes old values by their epoch.

uint lane = gl_LocalInvocationID.x, epoch = link[6], rank = link[7], room = link[9];
uint size = x_size, part_words = (size + 895u) / 896u * 1024u;
uint place = link[8] + uint(shards) * part_words <= room ? link[8] : 0u;
Mailbox box = Mailbox(packUint2x32(uvec2(link[0], link[1]))), flags = Mailbox(packUint2x32(uvec2(link[2], link[3])));
Mailbox places = Mailbox(packUint2x32(uvec2(link[4], link[5])));
bool open = (link[0] | link[1]) != 0u;
uint first = gl_WorkGroupID.x * 1024u + lane;

// give: writes this device's values to its slot.

if (open) {
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        uint w = first + 256u * k, i = (w >> 3) * 7u + (w & 7u);
        uint word = epoch;
        if ((w & 7u) != 7u) word = i < size ? floatBitsToUint(x[i]) : 0u;
        places.words[place + rank * part_words + w] = word;
    }
}

// copy_link: copies the link, for op give.

if (gl_WorkGroupID.x == 0u && lane < 12u) given[lane] = link[lane];

// wait: sets this device's flag, and waits for the flags of the other devices.

if (open && link[10] != 0u) {
    if (gl_WorkGroupID.x == 0u && lane == 0u) box.words[128u + rank] = epoch;
    if (lane < uint(shards) && lane != rank) await_flag(box, flags, 128u + lane, rank, epoch, link[10]);
    memoryBarrierBuffer();
    barrier();
}

// wait_few: sets the flag of this workgroup, and waits for the flags of the workgroups with the same number on the other
// devices.

memoryBarrierBuffer();
barrier();
if (open) {
    uint group = 1024u + gl_WorkGroupID.x;
    if (lane == 0u) box.words[group + 16u * rank] = epoch;
    if (lane < uint(shards) && lane != rank) await_flag(box, flags, group + 16u * lane, rank, epoch, link[10]);
    memoryBarrierBuffer();
}
barrier();

// take: reads the values of all devices in the order of ranks and returns the next link. Function collective replaces
// PROLOGUE, EACH and RESULT by the code of one collective.

if (gl_WorkGroupID.x == 0u && lane < 12u) {
    next[lane] = lane == 6u ? epoch + 1u : lane == 8u ? place + uint(shards) * part_words : link[lane];
}
PROLOGUE
float own[4], sum[4];
[[unroll]] for (uint k = 0u; k < 4u; ++k) {
    uint w = first + 256u * k, i = (w >> 3) * 7u + (w & 7u);
    own[k] = (w & 7u) != 7u && i < size ? x[i] : 0.0;
    sum[k] = 0.0;
}
bool stale = false;
for (uint p = 0u; p < uint(shards); ++p) {
    uint words[4];
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        words[k] = open && p != rank ? places.words[place + p * part_words + first + 256u * k] : 0u;
    }
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        uint w = first + 256u * k, i = (w >> 3) * 7u + (w & 7u);
        bool has = (w & 7u) != 7u && i < size;
        if (open && p != rank && (w & 7u) == 7u && words[k] != epoch) stale = true;
        float part = p == rank ? own[k] : uintBitsToFloat(words[k]);
        EACH
    }
}
if (stale && box.words[64u + rank] == 0u) box.words[64u + rank] = epoch | 0x80000000u;
[[unroll]] for (uint k = 0u; k < 4u; ++k) {
    uint w = first + 256u * k, i = (w >> 3) * 7u + (w & 7u);
    if ((w & 7u) != 7u && i < size) {
        RESULT
    }
}
