// Functions that assign to their parameters before their first instruction does anything: "CALL name a=1 b=2".
use std::hint::black_box;

#[inline(never)]
#[no_mangle]
pub fn added(mut n: u64, m: u64) -> u64 { n += 100; n * 3 + m }
#[inline(never)]
#[no_mangle]
pub extern "C" fn plain(mut n: u64) -> u64 { n += 100; n * 3 }
#[inline(never)]
#[no_mangle]
pub fn constant(mut n: u64) -> u64 { n = 5; black_box(n); n }
#[inline(never)]
#[no_mangle]
pub fn swapped(mut a: u64, mut b: u64, c: u64) -> u64 { std::mem::swap(&mut a, &mut b); a * 2 + b * c }
#[inline(never)]
#[no_mangle]
pub fn shadowed(n: u64) -> u64 { let n = n + 7; n * 5 }

fn main() {
    println!("CALL added n=10 m=11");
    black_box(added(black_box(10), black_box(11)));
    println!("CALL plain n=10");
    black_box(plain(black_box(10)));
    println!("CALL constant n=77");
    black_box(constant(black_box(77)));
    println!("CALL swapped a=1 b=2 c=3");
    black_box(swapped(black_box(1), black_box(2), black_box(3)));
    println!("CALL shadowed n=10");
    black_box(shadowed(black_box(10)));
}
