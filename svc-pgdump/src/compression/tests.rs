use std::io::{Read, Write};

use super::*;

fn text(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b"0123456789abcdef\t\n"[(state >> 33) as usize % 18]
    };
    (0..size).map(|_| next()).collect()
}

fn compressed(compression: Compression, text: &[u8]) -> std::fs::File {
    let file = tempfile::tempfile().unwrap();
    let mut writer = CompressingWriter::new(Some(compression), &file);
    // In pieces that meet the end of no frame.
    text.chunks(100_003).for_each(|piece| writer.write(piece).unwrap());
    let compressed_file = writer.finish().unwrap().1.unwrap();
    assert_eq!(compressed_file.size_bytes, file.metadata().unwrap().len());
    file
}

const BOTH: [Compression; 2] = [Compression::Zstd, Compression::Gzip];

#[test]
fn compressed_text_reads_back_from_start_and_offset() {
    for compression in BOTH {
        for size in [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME + 12_345] {
            let text = text(size);
            let file = compressed(compression, &text);
            let mut frames = FrameReader::from(Some(compression), &file, 0, true);
            let mut read = Vec::new();
            frames.read_to_end(&mut read).unwrap();
            assert!(read == text, "{compression:?} of {size}");
            let (_, _, starts) = frames.finish().unwrap();
            assert_eq!(starts.len(), size.div_ceil(FRAME));
            let frames = FrameIndex::new(compression, starts, size as u64);
            assert!(frames.are_short());
            for at in [0, 1, FRAME - 1, FRAME, 2 * FRAME + 7, size.saturating_sub(1)] {
                let mut buffer = [0; 1000];
                let got = frames.read_at(&file, &mut buffer, at as u64).unwrap();
                assert!(text.get(at..).unwrap_or_default().starts_with(&buffer[..got]), "{compression:?} at {at}");
                assert_eq!(got == 0, at >= size);
            }
        }
    }
}

#[test]
fn long_frame_or_many_tiny_ones_make_one_index_entry() {
    let long = zstd::bulk::compress(&text(9 * FRAME), 1).unwrap();
    let tiny: Vec<u8> = (0..5000).flat_map(|_| zstd::bulk::compress(b"a row\n", 1).unwrap()).collect();
    for (bytes, size, short, places) in [(long, 9 * FRAME, false, 1), (tiny, 30_000, true, 1)] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut frames = FrameReader::from(Some(Compression::Zstd), &file, 0, false);
        assert_eq!(std::io::copy(&mut frames, &mut std::io::sink()).unwrap(), size as u64);
        let (_, _, starts) = frames.finish().unwrap();
        assert_eq!(starts.len(), places);
        assert_eq!(FrameIndex::new(Compression::Zstd, starts, size as u64).are_short(), short);
    }
}

#[test]
fn compression_is_detected_from_first_bytes() {
    assert_eq!(Compression::of_start(b"\x28\xb5\x2f\xfd\0"), Some(Compression::Zstd));
    assert_eq!(Compression::of_start(b"\x52\x2a\x4d\x18"), Some(Compression::Zstd));
    assert_eq!(Compression::of_start(b"\x1f\x8b\x08\0"), Some(Compression::Gzip));
    assert_eq!(Compression::of_start(b"--\n-"), None);
    assert_eq!(Compression::of_start(b"\x28"), None);
}
