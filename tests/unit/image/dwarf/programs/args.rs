// The same for Rust, whose own calling convention is not written down.
use std::hint::black_box as bb;
use std::io::Write;

#[derive(Clone, Copy)]
pub struct Small { pub a: i32 }
#[derive(Clone, Copy)]
pub struct Pair { pub a: i32, pub b: f64 }
#[derive(Clone, Copy)]
pub struct Three { pub a: u16, pub b: u8, pub c: i32 }
#[derive(Clone, Copy)]
pub struct Twelve { pub a: i32, pub b: i32, pub c: i32 }
#[derive(Clone, Copy)]
pub struct Big { pub a: i64, pub b: i64, pub c: i64 }
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Color { Red = 3, Blue = 200 }
pub trait Shape { fn area(&self, scale: f64) -> f64; }
pub struct Square(pub f64);
impl Shape for Square { #[inline(never)] fn area(&self, scale: f64) -> f64 { bb(self.0) * scale } }
impl Big { #[inline(never)] pub fn sum(&self, n: i64) -> i64 { bb(self.a + self.b + self.c) + n } }

#[inline(never)] pub fn ints(a: i8, b: u16, c: i32, d: u64, e: bool, f: isize) -> i64 { bb(a as i64 + b as i64 + c as i64 + d as i64 + e as i64 + f as i64) }
#[inline(never)] pub fn reals(a: f32, b: f64, c: i32) -> f64 { bb(a as f64 + b + c as f64) }
#[inline(never)] pub fn text(s: &str, n: usize) -> usize { bb(s.len()) + n }
#[inline(never)] pub fn small(s: Small, n: i32) -> i32 { bb(s.a) + n }
#[inline(never)] pub fn pair(s: Pair, n: i32) -> i32 { bb(s.a) + s.b as i32 + n }
#[inline(never)] pub fn three(s: Three, n: i32) -> i32 { bb(s.c) + s.a as i32 + s.b as i32 + n }
#[inline(never)] pub fn twelve(s: Twelve, n: i32) -> i32 { bb(s.c) + s.a + s.b + n }
#[inline(never)] pub fn big(s: Big, n: i32) -> i64 { bb(s.c) + s.a + s.b + n as i64 }
#[inline(never)] pub fn slice(s: &[i32], n: usize) -> usize { bb(s.len()) + n }
#[inline(never)] pub fn option(o: Option<u32>, n: i32) -> i32 { bb(o.unwrap_or(0)) as i32 + n }
#[inline(never)] pub fn niche(o: Option<&u32>, n: i32) -> i32 { bb(*o.unwrap_or(&0)) as i32 + n }
#[inline(never)] pub fn string(s: String, n: usize) -> usize { bb(s.len()) + n }
#[inline(never)] pub fn unit(_u: (), n: i32) -> i32 { bb(n) }
#[inline(never)] pub fn array(a: [u16; 3], n: i32) -> i32 { bb(a[0]) as i32 + n }
#[inline(never)] pub fn many(a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: u8, i: f64) -> i32 { bb(a + b + c + d + e + f + g + h as i32) + i as i32 }
#[inline(never)] pub fn generic<T: Into<f64>>(t: T, n: i32) -> f64 { bb(t.into()) + n as f64 }
#[inline(never)] pub fn returns_big(n: i64, m: i32) -> Big { bb(Big { a: n, b: m as i64, c: 3 }) }
#[inline(never)] pub fn colors(c: Color, n: i32) -> i32 { bb(c as i32) + n }

fn say(s: &str) { println!("CALL {}", s); std::io::stdout().flush().unwrap(); }

// What LLVM knows that all callers pass it takes for a constant, which an assignment may be as well.
fn main() {
    let mut r = 0i64;
    say("args::ints a=-3 b=65000 c=-70000 d=18000000000000000000 e=true f=-9");
    r = r.wrapping_add(ints(bb(-3), bb(65000), bb(-70000), bb(18000000000000000000), bb(true), bb(-9)));
    say("args::reals a=1.5 b=-2.25 c=3"); r += reals(bb(1.5), bb(-2.25), bb(3)) as i64;
    say("args::text s=\"hello\" n=4"); r += text(bb("hello"), bb(4)) as i64;
    say("args::small s={a=11} n=5"); r += small(bb(Small { a: 11 }), bb(5)) as i64;
    say("args::pair n=6"); r += pair(Pair { a: 12, b: 2.5 }, bb(6)) as i64;
    say("args::three n=7"); r += three(Three { a: 1, b: 2, c: 3 }, bb(7)) as i64;
    say("args::twelve s={a=1 b=2 c=3} n=8"); r += twelve(Twelve { a: 1, b: 2, c: 3 }, bb(8)) as i64;
    say("args::big s={a=4 b=5 c=6} n=9"); r += big(Big { a: 4, b: 5, c: 6 }, bb(9));
    say("args::slice n=10"); r += slice(&[1, 2, 3], bb(10)) as i64;
    say("args::option n=11"); r += option(bb(Some(7)), bb(11)) as i64;
    say("args::niche n=12"); r += niche(Some(&7), bb(12)) as i64;
    say("args::string n=13"); r += string(String::from("abc"), bb(13)) as i64;
    say("args::unit n=14"); r += unit((), bb(14)) as i64;
    say("args::array a=[1 2 3] n=15"); r += array(bb([1, 2, 3]), bb(15)) as i64;
    say("args::many a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9.5"); r += many(bb(1), bb(2), bb(3), bb(4), bb(5), bb(6), bb(7), bb(8), bb(9.5)) as i64;
    say("args::generic<f32> t=2.5 n=16"); r += generic(bb(2.5f32), bb(16)) as i64;
    say("args::returns_big n=17 m=18"); r += returns_big(bb(17), bb(18)).a;
    say("args::colors c=200 n=19"); r += colors(bb(Color::Blue), bb(19)) as i64 + colors(Color::Red, bb(1)) as i64;
    let b = Big { a: 1, b: 2, c: 3 };
    say("args::Big::sum n=20"); r += b.sum(bb(20));
    let shape: Box<dyn Shape> = Box::new(Square(2.0));
    say("area scale=1.5"); r += shape.area(bb(1.5)) as i64;
    println!("{}", r);
}
